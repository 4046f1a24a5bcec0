"""Paragraphs that have others inside of them: in text boxes, notes and comments.

A sentence may go on behind a note. Therefore the inside of a nested paragraph is taken out of the paragraph
around it, as a unit of its own, and a reference is left in its place; `put_back` undoes that. The signs for
it are control characters, which XML does not have.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from dragoman.documents.document import Slot
from dragoman.documents.markup import Token

UNIT = re.compile("\x0e([^\x0e\x0f]*)\x0f")
REFERENCE = re.compile("\x10([0-9]+)\x11")


@dataclass(frozen=True)
class Paragraph:
    """A paragraph: its tokens from `first` to before `last`, and what is taken out of it."""

    text: str
    """Of the whole document."""
    first: int
    nested: list[tuple[int, int, str]] = field(default_factory=list)
    """Start, end and reference of the inside of each nested paragraph."""

    def source(self, start: int, end: int) -> str:
        """What stands from `start` to `end`, with references in the places of nested paragraphs."""
        parts: list[str] = []
        for place in range(bisect_left(self.nested, (start,)), len(self.nested)):
            nested_start, nested_end, reference = self.nested[place]
            if nested_start >= end:
                break
            parts += (self.text[start:nested_start], reference)
            start = nested_end
        return "".join([*parts, self.text[start:end]])


def rewrite(
    text: str,
    tokens: Sequence[Token],
    names: Collection[str],
    normal_form: Callable[[Paragraph, int], tuple[int, str]],
) -> tuple[str, tuple[Slot, ...]]:
    """A text with its paragraphs in a normal form, and the slots of these.

    Paragraphs are elements with these names. `normal_form` takes one and the place of its end tag, and gives
    the position from which on it is rewritten, and how; "" leaves it. Inner paragraphs come first.
    """
    parts: list[str] = []
    slots: list[Slot] = []
    length = done = units = 0

    def append(part: str) -> None:
        nonlocal length
        parts.append(part)
        length += len(part)

    opened: list[Paragraph] = []
    for place, token in enumerate(tokens):
        if token.name not in names:
            continue
        if token.kind == "start":
            opened.append(Paragraph(text, place + 1))
        elif token.kind == "end":
            paragraph = opened.pop()
            start = tokens[paragraph.first - 1].end
            first, form = normal_form(paragraph, place)
            append("\x0e" if opened else text[done:start])
            append(paragraph.source(start, first if form else token.start))
            if form:
                slots.append(Slot(length, length + len(form), paragraph.source(first, token.start)))
                append(form)
            if opened:
                append("\x0f")
                opened[-1].nested.append((start, token.start, f"\x10{units}\x11"))
                units += 1
            else:
                done = token.start
    append(text[done:])
    return "".join(parts), tuple(slots)


def put_back(text: str) -> str:
    """A text with every unit in the place of its reference."""
    units = UNIT.findall(text)
    parts: list[str] = []
    opened = [enumerate(REFERENCE.split(UNIT.sub("", text)))]
    while opened:
        number, part = next(opened[-1], (0, None))
        if part is None:
            opened.pop()
        elif number % 2:
            opened.append(enumerate(REFERENCE.split(units[int(part)])))
        else:
            parts.append(part)
    return "".join(parts)
