"""Codes of languages (BCP 47) by what they mean: `zh_CN` and `zh-Hans`, `no` and `nb`, `eng` and `en`.

A code without a script has that of most texts in the language: `zh` and `zh-CN` are `zh-Hans`, and `sr` is
`sr-Cyrl`. langcodes, which has the data, is imported for codes of more than two letters.
"""

import re
from collections.abc import Collection
from functools import lru_cache

UNKNOWN = "und"  # as BCP 47 has it
SIMPLE = re.compile("[a-z]{2}|und")
FORMER = {
    "in": "id", "iw": "he", "ji": "yi", "jw": "jv", "mo": "ro", "sh": "sr-Latn", "tl": "fil",
}  # fmt: skip
"""Codes of two letters that stand for others now."""
NORWEGIAN = {"no", "nb"}
"""The only two codes of two letters with one meaning."""
SAME = 1  # distance of langcodes up to which two languages are one: that of `no` and `nb`


@lru_cache(10_000)  # clients give codes of their own, too
def standard(code: str) -> str:
    """A code as BCP 47 writes it: `en` for `eng`, `zh-Hans` for `ZH_hans`; small letters if it is none."""
    if SIMPLE.fullmatch(code):
        return FORMER.get(code, code)
    import langcodes

    hyphens = code.replace("_", "-")
    try:
        return langcodes.standardize_tag(hyphens)
    except ValueError:
        return hyphens.lower()


@lru_cache(10_000)
def parts(code: str) -> tuple[str, str, str]:
    """Language, script and region of a code; "" is unknown. A script that is not given is the likeliest."""
    import langcodes

    try:
        tag = langcodes.Language.get(standard(code))
        return tag.language or "", tag.maximize().script or "", tag.territory or ""
    except ValueError:
        language, _, region = standard(code).partition("-")
        return language, "", region


@lru_cache(10_000)
def is_same(first: str, second: str) -> bool:
    """Whether two codes are of one language in one script, in any region."""
    codes = standard(first), standard(second)
    if codes[0] == codes[1]:
        return True
    if all(map(SIMPLE.fullmatch, codes)):
        return set(codes) == NORWEGIAN
    (language, script, _), (other, other_script, _) = map(parts, codes)
    return script == other_script and are_one_language(language, other)


def are_one_language(first: str, second: str) -> bool:
    """Whether two codes without scripts and regions are of one language."""
    if first == second or not (first and second):
        return first == second
    import langcodes

    try:
        return langcodes.tag_distance(first, second) <= SAME
    except ValueError:  # of what is no code
        return False


def could_be_same(first: str, second: str) -> bool:
    """Whether codes, such as those of files' names, may be of one language: a code without a script or region
    may be in any script.
    """
    if is_same(first, second):
        return True
    (language, script, _), (other, other_script, _) = parts(first), parts(second)
    is_open = "-" not in standard(first) or "-" not in standard(second)
    return (is_open or script == other_script) and are_one_language(language, other)


def matches(requested: str, language: str) -> bool:
    """Whether a language is the one that is asked for: `en-GB`, `EN` and `eng` match `en`, "" matches all.

    One region is not taken for another, nor one script. A model whose language is unknown translates every
    one.
    """
    if not requested or language == UNKNOWN:
        return True
    if standard(requested) == standard(language):
        return True
    if not is_same(requested, language):
        return False
    regions = {region for code in (requested, language) if (region := parts(code)[2])}
    return len(regions) < 2


def closeness(requested: str, language: str) -> int:
    """3 for the code that is asked for, 2 for one with its meaning, 1 for its language with another region.

    0 if one of them is open.
    """
    if not requested or language == UNKNOWN:
        return 0
    if standard(requested) == standard(language):
        return 3
    return 2 if region_of(requested) == region_of(language) else 1


def region_of(code: str) -> str:
    """The region of a code; the likeliest of a code with a script, as CN of `zh-Hans`."""
    language, script, region = parts(code)
    if region or "-" not in standard(code):
        return region
    import langcodes

    return langcodes.Language.make(language=language, script=script).maximize().territory or ""


def nearest(requested: str, languages: Collection[str]) -> str | None:
    """The language that is closest to the one that is asked for; None if none matches."""
    matching = [language for language in languages if matches(requested, language)]
    return max(matching, key=lambda language: closeness(requested, language), default=None)


@lru_cache(10_000)
def family(code: str) -> str:
    """One code for all languages that could match this one: those of Chinese, for example, are `zh`."""
    language = parts(code)[0] if "-" in standard(code) else standard(code)
    if language in NORWEGIAN:
        return min(NORWEGIAN)
    if SIMPLE.fullmatch(language):
        return language
    import langcodes

    try:
        return langcodes.standardize_tag(language, macro=True).partition("-")[0]
    except ValueError:
        return language
