"""Texts of several sentences: cut, and joined again from their translations. This module imports no torch."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dragoman.system.wording import counted
from dragoman.translation.sentence_ends import CONTROL, LINE_BREAK, LINE_BREAKS, sentence_ends
from dragoman.translation.tags import UNSPACED

LINE = re.compile(f"[^{LINE_BREAKS}]+")
CONTROL_CHARACTER = re.compile(f"[{CONTROL}]")
WITHOUT_SPACES = re.compile(rf"{UNSPACED.pattern}|[\u3000-\u303f\uff00-\uffef]")
"""Letters and punctuation marks of scripts without spaces."""


@dataclass(frozen=True)
class CutText:
    """A text and the places of its sentences. What stands between them is not translated."""

    text: str
    spans: tuple[tuple[int, int], ...]
    """The first character of each sentence and the one after its last; none of a blank text."""

    @classmethod
    def whole(cls, text: str) -> "CutText":
        """A text that is one sentence, or blank."""
        return cls(text, ((0, len(text)),))

    @property
    def sentences(self) -> list[str]:
        """The sentences, without white space around them."""
        return [self.text[start:end] for start, end in self.spans]

    def join(self, translations: Sequence[str]) -> str:
        """The translations in one text, with the gaps of this one.

        Line breaks stay. A translation without text has no other gap before it.
        """
        return "".join(self.join_streams([translation] for translation in translations))

    def join_streams(self, translations: Iterable[Iterable[str]]) -> Iterator[str]:
        """As `join`, piece by piece, of translations in pieces."""
        sources, former, end = self.sentences, "", 0
        for number, pieces in enumerate(translations):
            start, next_end = self.spans[number]
            gap = self.text[end:start] if number else ""
            if has_break := LINE_BREAK.search(gap) is not None:
                yield gap
            translation = ""
            for piece in filter(None, pieces):
                if number and not translation and not has_break:
                    yield gap_between(gap, (sources[number - 1], sources[number]), (former, piece))
                yield piece
                translation += piece
            former, end = translation, next_end


def cut_text(text: str, language: str) -> CutText:
    """Cut a text at its line breaks and where sentences end (ISO 639, "und" if the language is unknown)."""
    return CutText(text, tuple(sentence_spans(text, language)))


def sentence_spans(text: str, language: str) -> Iterator[tuple[int, int]]:
    """The place of each sentence of a text."""
    for line in LINE.finditer(text):
        ends = sentence_ends(CONTROL_CHARACTER.sub(" ", line[0]), language)
        for start, end in pairwise([0, *ends, len(line[0])]):
            if sentence := line[0][start:end].strip():
                first = line.start() + line[0].index(sentence, start)
                yield first, first + len(sentence)


def gap_between(gap: str, sources: tuple[str, str], translations: tuple[str, str]) -> str:
    """What stands between the translations of two sentences that have this gap between them.

    Scripts without spaces between words have none between sentences either.
    """
    if gap not in {"", " "}:
        return gap
    edges = translations[0][-1:] + translations[1][:1]
    count = len(WITHOUT_SPACES.findall(edges))
    if not gap and count == 0 and WITHOUT_SPACES.search(sources[0][-1:] + sources[1][:1]):
        return " "
    return "" if count == len(edges) else gap


def whole_texts_message(count: int, texts: int) -> str:
    """The message about `count` of the texts, which have several sentences and are translated whole."""
    have, are = ("has", "is") if count == 1 else ("have", "are")
    return (
        f"{count:,} of {counted(texts, 'text')} {have} several sentences or a line break, and {are} "
        "translated whole; a model that was trained on single sentences may translate only the first."
    )
