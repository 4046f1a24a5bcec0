"""Names of languages, and which one a text is written in."""

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from dragoman.text.settings import UNKNOWN_LANGUAGE

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


@cache
def language_name(code: str) -> str:
    """The English name of a language code such as `en` or `pt-BR`; the code itself if it has none."""
    from babel import Locale, UnknownLocaleError

    if code == UNKNOWN_LANGUAGE:
        return "Unknown language"
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code


def identify(text: str, among: Collection[str]) -> list[tuple[str, float]]:
    """The languages among which a text is written in one, with their probabilities, likeliest first.

    Languages that the identifier does not know are left out; a text without letters has none.
    """
    codes = {code.split("-")[0].lower(): code for code in among}
    identifier = identifier_of(frozenset(codes))
    if identifier is None or not any(map(str.isalpha, text)):
        return []
    return [(codes[code], float(probability)) for code, probability in identifier.rank(text[:1000])]


@cache
def identifier_of(codes: frozenset[str]) -> "LanguageIdentifier | None":
    """The identifier restricted to these ISO 639 codes; None if it knows none of them."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = codes & set(identifier.labels)
    if not known:
        return None
    identifier.set_languages(known)
    return identifier
