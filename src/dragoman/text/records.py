"""Records of a file that holds both sides of a corpus: texts by language, of which a pair is chosen."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.wording import shown
from dragoman.text.language_codes import standard
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages

SIDES = "source", "target"
SEARCHED = 10_000  # first records of a file that say its languages


@dataclass(frozen=True)
class Record:
    """A unit of a translation memory, or a line of JSON."""

    place: str
    """The file and the line, for errors."""
    texts: tuple[tuple[str, str], ...]
    """Language codes, each with a text. `source` and `target` stand for the codes of a pair."""
    source_language: str = ""
    """The code of the language that the whole file names as its source."""

    @property
    def has_sides(self) -> bool:
        """Whether the texts are named source and target."""
        return {code for code, _ in self.texts} >= set(SIDES)

    def pair(self, languages: Languages) -> tuple[str, str]:
        """The texts in these languages, of several in one the first; "" for one that is missing."""
        source, target = (next(iter(texts), "") for texts in self.sides(languages))
        return source, target

    def sides(self, languages: Languages) -> list[list[str]]:
        """All texts in the source language, and all in the target language."""
        codes = SIDES if self.has_sides else (languages.source, languages.target)
        return [self._texts_in(code) for code in codes]

    def _texts_in(self, language: str) -> list[str]:
        """The texts whose codes equal the language, or else begin with it."""
        candidates = [(code, text) for code, text in self.texts if matches(language, code)]
        exact = [candidate for candidate in candidates if normal(candidate[0]) == normal(language)]
        return [text for _, text in exact or candidates]


def normal(code: str) -> str:
    """A language code as it is compared: in small letters, with hyphens."""
    return code.lower().replace("_", "-")


def matches(language: str, code: str) -> bool:
    """Whether a code is of this language or a variety of it: `en` matches `en` and `en-US` (RFC 4647)."""
    return (normal(code) + "-").startswith(normal(language) + "-")


def primary(code: str) -> str:
    """The language of a code without region and script: `pt` of `pt-BR`, and `en` of `eng`."""
    return standard(code).partition("-")[0].lower()


def in_order(codes: Iterable[str]) -> list[str]:
    """Different codes, in the order in which they are first given."""
    return list(dict.fromkeys(codes))


def choose_languages(records: Iterable[Record], name: str, languages: Languages) -> Languages:
    """The languages of a file's pairs: those that are asked for, or else what its first records say.

    The source is the language that the file names as its source; the other side is in the only other
    language. `en-US` is taken for `en`, except where both sides are varieties of one language. Records named
    source and target say nothing. Raises `DragomanError` with `name` if several languages are possible.
    """
    chosen: Languages | None = None
    for record in islice(records, SEARCHED):
        if record.has_sides or UNKNOWN_LANGUAGE not in (languages.source, languages.target):
            return chosen or languages
        codes = in_order(normal(code) for code, _ in record.texts)
        if len(codes) < 2:
            continue
        if chosen is None:
            chosen = languages_of_record(record, codes, name, languages)
        for side in (chosen.source, chosen.target):
            if not any(matches(side, code) or matches(code, side) for code in codes):
                raise several_languages(name, in_order([chosen.source, chosen.target, *codes]))
    return chosen or languages


def languages_of_record(record: Record, codes: list[str], name: str, languages: Languages) -> Languages:
    """The languages of the pair in a record with these codes.

    Raises `DragomanError` as `choose_languages`, and for a code that is none.
    """
    has_source, has_target = languages.source != UNKNOWN_LANGUAGE, languages.target != UNKNOWN_LANGUAGE
    known = languages.source if has_source else languages.target if has_target else record.source_language
    matching = [code for code in codes if matches(known, code) or matches(code, known)]
    others = [code for code in codes if code not in matching]
    if len(matching) != 1 or len(others) != 1:
        raise several_languages(name, codes)
    pair = matching + others
    if primary(matching[0]) != primary(others[0]):
        pair = [primary(code) for code in pair]
    try:
        if has_source or has_target:
            return replace(languages, **{"target" if has_source else "source": pair[1]})
        return Languages(*pair)
    except DragomanError as error:  # a code of the file is none
        raise DragomanError(f"{record.place}: {error}") from error


def several_languages(name: str, codes: Iterable[str]) -> DragomanError:
    """The error of a file whose pairs may be in several languages."""
    return OptionError(
        "{name} has texts in the languages {codes}. Name those of the pairs: {source_language} CODE "
        "{target_language} CODE.",
        name=name,
        codes=", ".join(map(shown, codes)),
    )
