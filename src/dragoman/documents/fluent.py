"""Fluent: the texts of messages, of their attributes, and of the variants of their select expressions.

Terms (names such as -brand) stay with their attributes, and so do comments. An entry with an error stays,
as Fluent leaves it out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.documents.document import Document, Segment, Syntax
from dragoman.documents.file import Reading, decode_text
from dragoman.documents.strings import is_code, part_pattern, read_value, segments_of_blocks

NAME = r"[A-Za-z][\w-]*"
ENTRY = re.compile(rf"(?P<message>{NAME})[ ]*=[ ]*|[ ]*\.(?P<attribute>{NAME})[ ]*=[ ]*|[^\n]*(?:\n|\Z)")
STRING = r'"(?:[^"\\\n]|\\[^\n])*+"'
PLACEABLE = re.compile(rf'\{{(?:[^{{}}"]|{STRING})*+\}}')
SELECT = re.compile(rf'\{{(?:[^{{}}"\n]|{STRING})*?->[ \r]*\n')
VARIANT = re.compile(r"\s{0,1000}\*?\[\s*[\w.-]+\s*\][ ]*")
SIGN = re.compile(r"[{}\n]")
NEXT_LINE = re.compile(r"\n(?:[ ]*\r?\n)*(?P<indentation>[ ]*)(?P<first>\*\[|[^\r\n]?)")
ESCAPE = re.compile(r'\{[ ]*"[{}\[*.]"[ ]*\}|\r?\n(?:[ ]*\r?\n)+[ ]*|\r?\n[ ]*')
PARTS = part_pattern(PLACEABLE.pattern)
KEPT_ATTRIBUTES = frozenset(
    ("accesskey", "key", "keycode", "commandkey", "style", "href", "src", "width", "height")
)


def escape_fluent(text: str) -> str:
    """A text as it stands in a pattern. Line ends become spaces."""
    return re.sub(r"[\r\n]+", " ", re.sub(r"[{}]", r'{"\g<0>"}', text))


SYNTAX = Syntax(escape_fluent, keeps_tags=True)
BEGINNING = re.compile(r"\A( *)([\[*.])")
"""A sign with which a line of a pattern may not begin."""


@dataclass(frozen=True)
class PatternSegment(Segment):
    """A sentence, which may begin a line of its pattern."""

    def restore(self, translation: str) -> str:
        """As `Segment.restore`; a sign of `BEGINNING` is in a placeable."""
        written = super().restore(translation)
        return written if translation == self.sentence else BEGINNING.sub(r'\1{"\2"}', written)


def read(content: bytes, reading: Reading) -> Document:
    """The texts of a Fluent file."""
    text, encoding = decode_text(content, reading.name)
    blocks = (
        (block, SYNTAX)
        for start, end in texts(text)
        if not is_code(text[start:end])
        for block in read_value(text, start, end, ESCAPE, unescape).blocks(PARTS)
    )
    segments = (PatternSegment(**vars(segment)) for segment in segments_of_blocks(text, blocks, reading))
    return Document(text, tuple(segments), encoding=encoding)


def unescape(source: str) -> str:
    """The sign that a placeable stands for, a space for a line end, and a line end for empty lines."""
    if source.startswith("{"):
        return source[source.index('"') + 1]
    return "\n" if source.count("\n") > 1 else " "


def texts(text: str) -> Iterator[tuple[int, int]]:
    """Where the texts of all messages stand, with those of their attributes; of one with an error none."""
    position = 1 if text.startswith("\ufeff") else 0
    is_message = False
    message: list[tuple[int, int]] = []
    while position < len(text) and (entry := ENTRY.match(text, position)):
        position = entry.end()
        if entry["message"] or not (entry["attribute"] or not entry[0].strip()):
            yield from message
            is_message, message = bool(entry["message"]), []
        if is_message and entry[0].strip():
            spans, position = pattern(text, position)
            is_message = bool(spans)
            if not is_message:
                message = []
            elif entry["attribute"] not in KEPT_ATTRIBUTES:
                message += spans
    yield from message


def pattern(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """Where the texts of a pattern stand that begins at `start`, and where the line after it begins.

    There is none if the pattern has an error.
    """
    spans: list[tuple[int, int]] = []
    depth = 0
    position = start
    while sign := SIGN.search(text, position):
        position = sign.end()
        if sign[0] == "{":
            select = SELECT.match(text, sign.start())
            placeable = PLACEABLE.match(text, sign.start())
            if placeable and not select:
                position = placeable.end()
                continue
            variant = VARIANT.match(text, select.end()) if select else None
            if variant is None:
                return [], position
            spans.append((start, sign.start()))
            start = position = variant.end()
            depth += 1
        elif sign[0] == "}":
            if not depth:
                return [], position
            spans.append((start, sign.start()))
            start = position
            depth -= 1
        elif depth and (variant := VARIANT.match(text, sign.start())):
            spans.append((start, sign.start()))
            start = position = variant.end()
        elif following := NEXT_LINE.match(text, sign.start()):
            is_special = following["first"] in {"*[", "[", "*", ".", ""} or not following["indentation"]
            if is_special and not (depth and following["first"] == "}"):
                return ([] if depth else [*spans, (start, sign.start())]), position
            position = following.start("first")
            if following["first"] == "}" and not depth:
                return [*spans, (start, sign.start())], sign.end()
    return ([] if depth else [*spans, (start, len(text))]), len(text)
