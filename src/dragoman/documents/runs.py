r"""The normal form of a paragraph whose text is cut into runs, each with a format.

Word cuts runs where nothing changes: behind a word that it has checked, for example. In the normal form a
text goes on as long as its format is the same. Between texts stand marks, which are written as runs again at
the end (`write_runs`): a format is that of its innermost mark then, wherever the marks have come to stand.

    \x01 base format \x05 text and marks \x02        a paragraph
    \x03 kind \x05 name \x05 XML \x05 format \x04    a mark

The signs are control characters, which XML does not have. What has the base format, the most frequent one,
has no marks around it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from dragoman.documents.document import Block, Piece
from dragoman.documents.markup import STANDS_FOR, text_pieces
from dragoman.text.letters import has_letter

Kind = Literal["text", "open", "close", "start", "stop", "alone", "word", "like", "break"]
PARAGRAPH = re.compile("\x01([^\x05]*)\x05([^\x02]*)\x02")
MARK = re.compile("\x03([^\x05]*)\x05([^\x05]*)\x05([^\x05]*)\x05([^\x04]*)\x04")
OPENING = re.compile("(?<!\x04)((?:\x03(?:open|start)\x05[^\x04]*\x04)+)([ \t\r\n]+)")
CLOSING = re.compile("(?<![ \t\r\n])([ \t\r\n]++)((?:\x03(?:close|stop)\x05[^\x04]*\x04)+)")


class Item(NamedTuple):
    """A part of a paragraph."""

    kind: Kind
    """Text; the tags around other parts (open, close), or points around them (start, stop); what is kept,
    without (alone) or with (word) a part in the sentence, or like a text; and what ends a sentence."""
    xml: str
    """As it is written between runs; of a text its characters, as they are written in one."""
    format: str = ""
    """Of the text; what something is like."""
    name: str = ""
    """The same for both partners of a pair."""


def normal_form(items: Sequence[Item]) -> str:
    """The normal form of a paragraph; "" if it has nothing to translate."""
    if not any(item.kind == "text" and has_letter(item.xml) for item in items):
        return ""
    bases = base_formats(items)
    parts = [f"\x01{bases[-1]}\x05"]
    levels = [bases[-1]]
    current = bases[-1]

    def change(text_format: str) -> None:
        nonlocal current
        if current not in {levels[-1], text_format}:
            parts.append(mark("close"))
        if text_format not in {levels[-1], current}:
            parts.append(mark("open", text_format=text_format))
        current = text_format

    for place, item in enumerate(items):
        if item.kind == "text":
            change(current if item.xml.isspace() else item.format)
            parts.append(item.xml)
            continue
        if item.kind not in {"alone", "word", "like"}:
            change(levels[-1])
        if item.kind == "open":
            levels.append(bases[place])
        elif item.kind == "close" and len(levels) > 1:
            levels.pop()
        if item.kind in {"open", "close"}:
            current = levels[-1]
        parts.append(mark(item.kind, item.name, item.xml, bases.get(place, item.format)))
    change(levels[-1])
    content = OPENING.sub(r"\2\1", "".join(parts))
    return CLOSING.sub(r"\2\1", content) + "\x02"


def mark(kind: Kind, name: str = "", xml: str = "", text_format: str = "") -> str:
    """A mark as the normal form has it."""
    return f"\x03{kind}\x05{name}\x05{xml}\x05{text_format}\x04"


def base_formats(items: Sequence[Item]) -> dict[int, str]:
    """The most frequent format in each pair of tags, by the place of the opening one; -1 is the paragraph."""
    lengths: dict[int, Counter[str]] = {-1: Counter()}
    opened = [-1]
    for place, item in enumerate(items):
        if item.kind == "text":
            lengths[opened[-1]][item.format] += len(item.xml)
        elif item.kind == "open":
            opened.append(place)
            lengths[place] = Counter()
        elif item.kind == "close" and len(opened) > 1:
            opened.pop()
    return {place: max(counts, key=counts.__getitem__, default="") for place, counts in lengths.items()}


def run_blocks(text: str) -> Iterator[Block]:
    """The blocks of all paragraphs in the normal form that a text contains."""
    for paragraph in PARAGRAPH.finditer(text):
        block: Block = []
        end = paragraph.start(2)
        for mark in MARK.finditer(text, *paragraph.span(2)):
            yield from add_text(text, end, mark.start(), block)
            end = mark.end()
            kind, name, _, likeness = mark.groups()
            if kind == "break":
                yield block[:]
                block.clear()
            else:
                block.append(to_piece(kind, name, likeness, *mark.span()))
        yield from add_text(text, end, paragraph.end(2), block)
        yield block


def add_text(text: str, start: int, end: int, block: Block) -> Iterator[Block]:
    """Add a text to a block. Yields the block where a control character ends it, and empties it then."""
    for piece in text_pieces(text, start, end, ()):
        if piece is None:
            yield block[:]
            block.clear()
        else:
            block.append(piece)


def to_piece(kind: str, name: str, likeness: str, start: int, end: int) -> Piece:
    """The piece of a mark."""
    if kind in {"open", "start"}:
        return Piece("open", name, start, end)
    if kind in {"close", "stop"}:
        return Piece("close", name, start, end)
    if kind == "like":
        return Piece("text", likeness, start, end)
    return Piece("alone", STANDS_FOR if kind == "word" else "", start, end)


def write_runs(text: str, write_run: Callable[[str, str], str]) -> str:
    """A text, and its paragraphs in the normal form as runs. `write_run` takes format and text of one."""
    return PARAGRAPH.sub(lambda match: write_paragraph(match[1], match[2], write_run), text)


def write_paragraph(base: str, content: str, write_run: Callable[[str, str], str]) -> str:
    """The runs of a paragraph."""
    formats = [base]
    parts: list[str] = []
    end = 0
    for mark in MARK.finditer(content):
        if end < mark.start():
            parts.append(write_run(formats[-1], content[end : mark.start()]))
        end = mark.end()
        kind, _, xml, text_format = mark.groups()
        if kind == "open":
            formats.append(text_format)
        elif kind == "close" and len(formats) > 1:
            formats.pop()
        parts.append(xml)
    if end < len(content):
        parts.append(write_run(formats[-1], content[end:]))
    return "".join(parts)
