"""Plain text: a line is a block, without the marks of lists and quotations at its start."""

import re
from collections.abc import Iterator
from dataclasses import replace

from dragoman.documents.document import Block, Document, Piece, Syntax, compose
from dragoman.documents.file import Reading, decode_text
from dragoman.translation.sentence_ends import CONTROL, LINE_BREAKS

RUN = re.compile(f"[^{CONTROL}]+")
LINE = re.compile(f"[^{LINE_BREAKS}]+")
ITEM_MARK = r"[-*+•◦▪●■–—☐☑☒✓✗→♪]|#{1,6}|\d{1,3}\.|\(?(?:\d{1,3}|[A-Za-z])\)|\[[ xX]\]"
LIST_MARK = re.compile(rf"[\s{CONTROL}]*+(?:>\s*+|(?:{ITEM_MARK})\s++)*+")
"""Marks of quotations, lists, headings and tasks, as in Markdown, at the start of a line."""
PLAIN = Syntax(escape=str, keeps_tags=False)


def plain_text(text: str, language: str, split: bool = True) -> Document:
    """The sentences of a plain text in a language (ISO 639, "und" if unknown); `split` cuts within lines.

    Line ends, tabs, other control characters and the marks of lists and quotations are in no sentence.
    """
    return compose(text, plain_blocks(text), language, split, PLAIN)


def read(content: bytes, reading: Reading) -> Document:
    """A file of plain text."""
    text, encoding = decode_text(content, reading.name)
    return replace(plain_text(text, reading.source, reading.split), encoding=encoding)


def plain_blocks(text: str) -> Iterator[Block]:
    """The runs between line ends, control characters and list marks."""
    for line in LINE.finditer(text):
        mark = LIST_MARK.match(text, line.start(), line.end())
        for run in RUN.finditer(text, mark.end() if mark else line.start(), line.end()):
            yield [Piece("text", run[0], run.start(), run.end())]
