"""reStructuredText: the texts of its blocks. rst_inline.py reads what is in them."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.documents.document import Document, Segment, compose
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.rst_blocks import Scanner
from dragoman.documents.rst_inline import RST, RstSegment

REFERENCE = re.compile(r"`([^`<]+)(?:<[^`>]+>)?`_(?!_)|(?<!\w)(\w[\w.+-]{0,80})_(?!\w)")
"""A reference to a target by its name."""


@dataclass(frozen=True)
class TitleSegment(Segment):
    """A title with the lines under and over it, which are at least as long."""

    title: RstSegment | None = None
    is_referred_to: bool = False
    """By its text: it becomes a target of that name."""

    def restore(self, translation: str) -> str:
        """The translation with its lines."""
        if translation == self.sentence or self.title is None:
            return self.source
        before = self.source[: self.title.start - self.start]
        after = self.source[self.title.end - self.start :]
        title = self.title.restore(translation)
        if title == self.title.source:
            return self.source
        end = re.search(r"\r\n?|\n", self.source)
        gap = end[0] if end else ""
        target = f".. _`{self.title.source}`:{gap}{gap}" if self.is_referred_to else ""
        width = max(map(columns, (before + title + after).splitlines()))
        return (
            target
            + re.sub(r"(?m)^([!-/:-@\[-`{-~])\1+(?=[ \t]*$)", lambda match: match[1] * width, before)
            + title
            + re.sub(r"([!-/:-@\[-`{-~])\1+\Z", lambda match: match[1] * max(width, len(match[0])), after)
        )


def columns(text: str) -> int:
    """The number of columns that a text takes."""
    return sum(
        (unicodedata.east_asian_width(letter) in "WF") + (not unicodedata.combining(letter))
        for letter in text
    )


def read(content: bytes, reading: Reading) -> DocumentFile:
    """A file of reStructuredText."""
    text, encoding = decode_text(content, reading.name)
    return replace(rst(text, reading.source, reading.split), encoding=encoding)


def rst(text: str, language: str, split: bool = True) -> Document:
    """The sentences of reStructuredText in a language (ISO 639, "und" if unknown)."""
    scanner = Scanner(text)
    scanner.scan()
    blocks = [scanner.block(paragraph) for paragraph in scanner.paragraphs]
    starts = {block[0].start for block in blocks if block}
    line_starts = [0, *(match.end() for match in re.finditer(r"[\r\n]", text))]
    segments: list[Segment] = [
        rst_segment(segment, segment.start in starts or is_first(text, segment.start, line_starts))
        for segment in compose(text, blocks, language, split, RST).segments
    ]
    names = {normal_name(name or word) for name, word in REFERENCE.findall(text)} if scanner.titles else set()
    for start, line, end in scanner.titles:
        composed = compose(text, [scanner.block([line])], language, False, RST).segments
        if len(composed) == 1:
            title = rst_segment(composed[0], True)
            is_referred_to = normal_name(title.source) in names and "`" not in title.source
            segments.append(
                TitleSegment(
                    title.sentence, start, end, text[start:end], RST, title.marks, title, is_referred_to
                )
            )
    return Document(text, tuple(sorted(segments, key=lambda segment: segment.start)))


def normal_name(name: str) -> str:
    """The name of a target in its normal form."""
    return " ".join(name.lower().split())


def rst_segment(segment: Segment, is_line_start: bool) -> RstSegment:
    """The segment, which knows whether it begins a line."""
    return RstSegment(
        segment.sentence, segment.start, segment.end, segment.source, segment.syntax, segment.marks,
        is_line_start,
    )  # fmt: skip


def is_first(text: str, place: int, line_starts: Sequence[int]) -> bool:
    """Whether only white space stands before a place in its line."""
    line = line_starts[bisect_right(line_starts, place) - 1]
    return not text[line:place].strip("\ufeff \t")
