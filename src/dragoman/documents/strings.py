"""The texts of resource files: strings with escapes, whose characters stand anywhere in the document.

Formats that keep texts of a program by keys (JSON, properties, PO …) read each as a `Value`, and get its
blocks from it. They write what they change into slots: see `Rewriting`.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.documents.document import Block, Document, Piece, Segment, Slot, Syntax, compose
from dragoman.documents.file import Reading
from dragoman.documents.markup import BLOCK_ELEMENTS, VOID
from dragoman.text.letters import has_letter
from dragoman.translation.sentence_ends import CONTROL
from dragoman.translation.tags import VARIABLE

_CODE_ELEMENT = r"<(?P<element>code|kbd|samp|script|style|var)\b[^<>]*>[^<>]*</(?P=element)>"
PART = (
    rf"(?P<kept>{_CODE_ELEMENT}|{{}})|</?(?P<tag>[A-Za-z][^\s/<>]*+|\d++(?=/?>))[^<>]*+>"
    rf"|<!--[^<>]*>|(?P<end>[{CONTROL}]+)"
)
DATE_FORM = re.compile(r"%-?[A-Za-z]|\b(?:yy(?:yy)?|M{1,4}|dd?|E{3,4}|HH?|hh?|mm|ss)\b")
CODE = re.compile(
    r"(?=.*[_\\#]|/|[^/]*/[^/]*/|.*\w[.:]\w|[:.$@]\w|[0-9a-f]{8}-)[\w.:/\\#@$%+*?=&,;~()\[\]{}-]+"
    r"|(?=.*\d)[A-Z0-9]+(?:[-./][A-Z0-9]+)*",
    re.ASCII,
)
"""A word of ASCII with a mark that no word of a language has: a path, a name of code, a colour, a key. Or one
of capital letters and figures: the number of an article."""


def part_pattern(kept: str = "(?!)") -> re.Pattern[str]:
    """What is no text in a value: tags, comments, control characters, and what `kept` finds."""
    return re.compile(PART.replace("{}", kept, 1), re.DOTALL)


PARTS = part_pattern()


class Value(NamedTuple):
    """A text as a program reads it, and where each of its characters starts and ends in the document."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def cut(self, first: int, last: int) -> "Value":
        """The characters `first` to `last`."""
        return Value(self.text[first:last], self.starts[first:last], self.ends[first:last])

    def pieces(self, first: int, last: int) -> Iterator[Piece]:
        """The characters `first` to `last` as texts: an escape stands for itself, all others are joined."""
        if first < last and self.ends[last - 1] - self.starts[first] == last - first:
            yield Piece("text", self.text[first:last], self.starts[first], self.ends[last - 1])
            return
        start = first
        for place in range(first, last):
            is_escape = self.ends[place] - self.starts[place] != 1
            if place > start and (is_escape or self.starts[place] != self.ends[place - 1]):
                yield Piece("text", self.text[start:place], self.starts[start], self.ends[place - 1])
                start = place
            if is_escape:
                yield Piece("text", self.text[place], self.starts[place], self.ends[place])
                start = place + 1
        if start < last:
            yield Piece("text", self.text[start:last], self.starts[start], self.ends[last - 1])

    def blocks(self, parts: re.Pattern[str] = PARTS) -> Iterator[Block]:
        """The lines of the text, with its tags as tags. HTML's block elements end a line too."""
        block: Block = []
        done = 0
        for match in parts.finditer(self.text):
            first, last = match.span()
            block += self.pieces(done, first)
            done = last
            name = (match["tag"] or "").lower()
            if match["end"] or name in BLOCK_ELEMENTS:
                yield block
                block = []
                continue
            kind = "alone"
            if name and not match[0].endswith("/>") and name not in VOID:
                kind = "close" if match[0].startswith("</") else "open"
            start, end = self.starts[first], self.ends[last - 1]
            block.append(Piece(kind, name if kind != "alone" else "", start, end))  # type: ignore[arg-type]
        yield [*block, *self.pieces(done, len(self.text))]


def read_value(
    text: str, start: int, end: int, escape: re.Pattern[str], unescape: Callable[[str], str]
) -> Value:
    """The value that stands from `start` to `end`. `unescape` gives the characters of each escape."""
    characters: list[str] = []
    starts, ends = array("q"), array("q")
    done = start
    for match in escape.finditer(text, start, end):
        characters.append(text[done : match.start()])
        starts.extend(range(done, match.start()))
        ends.extend(range(done + 1, match.start() + 1))
        character = unescape(match[0])
        characters.append(character)
        starts.extend([match.start()] * len(character))
        ends.extend([match.end()] * len(character))
        done = match.end()
    if done == start:
        return Value(text[start:end], range(start, end), range(start + 1, end + 1))
    starts.extend(range(done, end))
    ends.extend(range(done + 1, end + 1))
    return Value("".join([*characters, text[done:end]]), starts, ends)


def is_code(text: str) -> bool:
    """Whether a value is no text: without letters, or a path, a key, a colour, a form of dates."""
    text = text.strip()
    if text in {"ltr", "rtl"}:
        return True
    without = re.sub(VARIABLE, "", DATE_FORM.sub("", text))
    return not has_letter(without) or CODE.fullmatch(text) is not None


def segments_of_blocks(
    text: str, blocks: Iterable[tuple[Block, Syntax]], reading: Reading
) -> tuple[Segment, ...]:
    """The sentences of blocks, each of which has a syntax."""
    return tuple(
        segment
        for block, syntax in blocks
        for segment in compose(text, [block], reading.source, reading.split, syntax).segments
    )


class Rewriting:
    """A text that is copied from its start to its end, with other characters in some places."""

    def __init__(self, text: str):
        self.text = text
        self.parts: list[str] = []
        self.length = 0
        self.done = 0
        self.slots: list[Slot] = []

    def append(self, text: str) -> None:
        """Write a text."""
        self.parts.append(text)
        self.length += len(text)

    def copy(self, end: int) -> None:
        """Copy the text up to `end`."""
        self.append(self.text[self.done : end])
        self.done = end

    def replace(self, start: int, end: int, new: str) -> int:
        """Write `new` instead of the characters `start` to `end`. Returns where it stands in the result."""
        self.copy(start)
        place = self.length
        self.append(new)
        self.done = end
        return place

    def slot(self, start: int, end: int, new: str, write: Callable[[str], str] | None = None) -> int:
        """`replace`, as long as a sentence in it is translated."""
        place = self.replace(start, end, new)
        self.slots.append(Slot(place, self.length, self.text[start:end], write))
        return place

    def result(self) -> str:
        """The whole text."""
        self.copy(len(self.text))
        return "".join(self.parts)


@dataclass(frozen=True)
class DeclaringFile:
    """A file that says what language it is in: the document says the target language where it has no slot."""

    content: bytes
    document: Document
    translated_into: str = ""
    """The language of its translations, if it says so."""

    @property
    def language(self) -> str:
        """The language that the file says it is translated from."""
        return self.document.language

    @property
    def segments(self) -> Sequence[Segment]:
        """The sentences."""
        return self.document.segments

    def write(self, translations: Sequence[str]) -> bytes:
        """The document, or the file as it was if no sentence is translated. Raises as `Document.join`."""
        written = self.document.write(translations)
        is_unchanged = all(
            segment.restore_or_keep(translation) == segment.source
            for segment, translation in zip(self.segments, translations, strict=True)
        )
        return self.content if is_unchanged else written
