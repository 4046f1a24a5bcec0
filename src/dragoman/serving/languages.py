"""Names of languages, the lists of them, and which one a translated text is written in."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from threading import Lock

from dragoman.text.quality.identification import identifier_of, identify
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE


@lru_cache(1_000)  # clients give codes of their own, too
def language_name(code: str) -> str:
    """The English name of a language code such as `en` or `pt-BR`; the code itself if it has none."""
    from babel import Locale, UnknownLocaleError

    if code == UNKNOWN_LANGUAGE:
        return "Unknown language"
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code


@cache
def two_letter_codes() -> list[str]:
    """The codes of ISO 639-1 that have an English name, sorted."""
    from babel import Locale

    return sorted(code for code in map(str, Locale("en").languages) if len(code) == 2)


def listed(languages: Iterable[str]) -> list[str]:
    """The codes under which languages stand in a list of languages.

    A model whose language is unknown takes every code. All of ISO 639-1 stand for it, because clients refuse
    a language that they do not find in the list, and know no `und`.
    """
    code_lists = [
        two_letter_codes() if language == UNKNOWN_LANGUAGE else [language] for language in languages
    ]
    return list(dict.fromkeys(code for codes in code_lists for code in codes))


def listed_pairs(pairs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The target languages of each listed language; [] for one that is only a target."""
    targets_of: dict[str, dict[str, None]] = {}
    for source, targets in pairs.items():
        for code in listed([source]):
            target_codes = [target for target in listed(targets) if target != code or target in targets]
            targets_of.setdefault(code, {}).update(dict.fromkeys(target_codes))
    for target in listed(target for targets in pairs.values() for target in targets):
        targets_of.setdefault(target, {})
    return {code: list(targets) for code, targets in targets_of.items()}


reading = Lock()
"""Held while the identifier's model is read, so that several requests do not read it at once."""


async def load_identifier() -> None:
    """Read the identifier's model, which takes seconds once, while other requests are answered."""

    def read() -> None:
        with reading:
            identifier_of(None)

    await asyncio.to_thread(read)


def detected(text: str, source: str, among: Collection[str]) -> tuple[str, float]:
    """The source language of a translated text, and its probability in percent among these languages.

    `source` is the model's. If it is unknown, the language is the likeliest; `en` with probability 0 if the
    text has none, as LibreTranslate answers.
    """
    detections = identify(text, among)
    if source != UNKNOWN_LANGUAGE:
        shares = {primary(code): share for code, share in detections}
        return source, percent(shares.get(primary(source), 0.0))
    return (detections[0][0], percent(detections[0][1])) if detections else ("en", 0.0)


def percent(share: float) -> float:
    """A probability in percent, with one decimal."""
    return round(100 * share, 1)
