"""The blocks of a text of reStructuredText."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.documents.document import Block
from dragoman.documents.rst_inline import pieces_of

LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
ADORNMENT = re.compile(r"(?!(?:::|\.\.)[ \t]*\Z)([!-/:-@\[-`{-~])\1+[ \t]*\Z")
TABLE = re.compile(r"\+[-=+]{2,}\+[ \t]*\Z")
COLUMNS = re.compile(r"={2,}(?: +=+)+[ \t]*\Z")
MARKER = re.compile(r"(?:[-*+•‣⁃]|\(?(?:\d+|[A-Za-z]|[ivxlcdmIVXLCDM]+|#)[.)]|\|)(?:[ \t]+|\Z)")
"""Of an item of a list, or of a line of verse."""
FIELD = re.compile(r":(?![: `])((?:[^:\\\n]|\\.|:(?!\s|\Z))+):(?:[ \t]+|\Z)")
OPTION = re.compile(r"(?:--?[A-Za-z]|/[A-Z])[^ ]*(?: [^ ]+)*(?: {2,}|\Z)")
DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|]+\|[ \t]+)?([\w.:+-]+?)::(?:[ \t]+|\Z)")
FOOTNOTE = re.compile(r"\.\.[ \t]+\[[^\]]+\](?:[ \t]+|\Z)")
BLANK_LINE = re.compile(r"[ \t]*(?:\r\n?+|\n)[ \t]*[\r\n]")
VERSION = re.compile(r"\S+[ \t]*")
WITH_TEXT = frozenset(
    (
        "admonition", "attention", "caution", "centered", "danger", "error", "hint", "important", "note",
        "rubric", "seealso", "sidebar", "tip", "title", "todo", "topic", "warning",
    )
)  # fmt: skip
"""Directives whose argument is text, and their content too."""
VERSIONS = frozenset(("deprecated", "versionadded", "versionchanged", "versionremoved"))
WITH_CONTENT = frozenset(
    (
        "class", "compound", "container", "epigraph", "figure", "highlights", "list-table", "only",
        "pull-quote", "table", "attribute", "classmethod", "cmdoption", "data", "decorator", "describe",
        "envvar", "exception", "function", "method", "module", "object", "option", "program", "staticmethod",
    )
)  # fmt: skip
"""Directives whose content is text."""
KEPT_FIELDS = frozenset(
    (
        "author", "authors", "organization", "contact", "address", "version", "revision", "status", "date",
        "copyright", "orphan", "tocdepth", "nocomments", "no-search", "type", "rtype", "vartype",
    )
)  # fmt: skip


class Line(NamedTuple):
    """A line, `start` to `end` of the text without white space around it."""

    start: int
    end: int
    indent: int


class Scanner:
    """The blocks of a text: their lines, each without the marker before it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = list(read_lines(text))
        self.paragraphs: list[list[Line]] = []
        self.titles: list[tuple[int, Line, int]] = []
        """Where each begins with the line over it, its line, and where the line under it ends."""
        self.open: list[Line] = []
        self.base = 0
        """The indent of the block of the open paragraph, with its marker."""
        self.literal_indent: int | None = None
        """All lines that are more indented are kept."""
        self.is_loose = False
        """The next line of the open paragraph may have any indent above its base."""
        self.in_options = False
        self.is_skipped = False
        """All lines up to the next blank one are kept."""

    def scan(self) -> None:
        """Find the paragraphs and titles."""
        number = 0
        while number < len(self.lines):
            number = self.read(number)
        self.close()

    def words(self, line: Line) -> str:
        """The text of a line."""
        return self.text[line.start : line.end]

    def close(self) -> None:
        """End the open paragraph. Behind one that ends in two colons, what is more indented is kept."""
        if not self.open:
            return
        last = self.open[-1]
        if self.words(last).endswith("::"):
            self.literal_indent = max(self.base, last.indent)
            self.open[-1] = last._replace(end=last.end - 2)
        self.paragraphs.append(self.open)
        self.open = []

    def read(self, number: int) -> int:
        """Read a line. Returns the number of the next one to read."""
        line = self.lines[number]
        words = self.words(line)
        if not words:
            self.close()
            self.in_options = self.is_skipped = False
            return number + 1
        if self.is_skipped:
            return number + 1
        if self.literal_indent is not None and not self.open:
            if line.indent > self.literal_indent:
                return number + 1
            self.literal_indent = None
        if self.in_options and FIELD.match(words):
            return number + 1
        self.in_options = False
        if self.open and self.is_loose and line.indent > self.base:
            self.open = [self.open[0]._replace(indent=line.indent)]
            self.is_loose = False
        if (
            self.open
            and line.indent == self.open[-1].indent
            and not (line.indent == 0 and ADORNMENT.match(words))
        ):
            self.open.append(line)
            return number + 1
        return self.begin(number, line, words)

    def begin(self, number: int, line: Line, words: str) -> int:
        """Read a line that begins a block, or is the one under a title. Returns as `read`."""
        if ADORNMENT.match(words) and line.indent == 0 and len(self.open) == 1 and self.open[0].indent == 0:
            self.titles.append((self.open[0].start, self.open[0], line.end))
            self.open = []
            return number + 1
        if len(self.open) == 1 and line.indent > self.open[0].indent and not self.is_loose:
            self.open = [self.without_classifiers(self.open[0])]
        self.close()
        following = self.lines[number + 1 : number + 3]
        is_closed = len(following) == 2 and self.words(following[1]) == words and self.words(following[0])
        if ADORNMENT.match(words) and is_closed:
            self.titles.append((line.start, following[0], following[1].end))
            return number + 3
        if COLUMNS.match(words):
            return self.after_table(number)
        if ADORNMENT.match(words):
            return number + 1
        self.begin_paragraph(line, words)
        return number + 1

    def begin_paragraph(self, line: Line, words: str) -> None:
        """Begin a paragraph behind the markers at the start of its line."""
        self.base, self.is_loose = line.indent, False
        while marker := MARKER.match(self.text, line.start, line.end):
            self.base = line.indent
            width = marker.end() - line.start
            line = line._replace(start=marker.end(), indent=line.indent + width)
        words = self.words(line)
        if words.startswith("..") and (words == ".." or words[2].isspace()):
            self.base = line.indent
            self.begin_explicit(line, words)
            return
        if words.startswith((">>>", "__ ")) or TABLE.match(words) or COLUMNS.match(words):
            self.is_skipped = True
            return
        field = FIELD.match(words)
        if field and field[1].split()[0].lower() in KEPT_FIELDS:
            self.literal_indent = line.indent
            return
        if label := field or OPTION.match(words):
            self.base, self.is_loose = line.indent, True
            line = line._replace(start=line.start + label.end(), indent=-1)
        if line.start < line.end:
            self.open = [line]

    def begin_explicit(self, line: Line, words: str) -> None:
        """Begin a directive or a footnote; comments, targets and other directives are kept."""
        directive, footnote = DIRECTIVE.match(words), FOOTNOTE.match(words)
        self.is_loose = True
        if footnote:
            line = line._replace(start=line.start + footnote.end(), indent=-1)
        elif directive:
            name = directive[1].rpartition(":")[2]
            start = line.start + directive.end()
            if name in VERSIONS and (version := VERSION.match(self.text, start, line.end)):
                start = version.end()
            elif name in WITH_CONTENT:
                start = line.end
            elif name not in WITH_TEXT:
                self.literal_indent = line.indent
                return
            self.in_options = start == line.end or name not in VERSIONS
            line = line._replace(start=start, indent=-1)
        else:
            is_empty = words == ".." and BLANK_LINE.match(self.text, line.end)
            self.literal_indent = (
                None if is_empty else line.indent
            )  # an empty comment ends a list, for example
            return
        if line.start < line.end:
            self.open = [line]

    def without_classifiers(self, line: Line) -> Line:
        """The line of a term without what stands behind its colon."""
        place = self.text.find(" : ", line.start, line.end)
        return line if place < 0 else line._replace(end=place)

    def after_paragraph(self, number: int) -> int:
        """The number of the next blank line."""
        while number < len(self.lines) and self.words(self.lines[number]):
            number += 1
        return number

    def after_table(self, number: int) -> int:
        """The number of the line after a table whose columns lines of = show."""
        border = number + 1
        while border < len(self.lines) and self.lines[border].indent >= self.lines[number].indent:
            is_border = COLUMNS.match(self.words(self.lines[border]))
            if is_border and (border + 1 == len(self.lines) or not self.words(self.lines[border + 1])):
                return border + 1
            border += 1
        return max(border, self.after_paragraph(number))

    def block(self, lines: Sequence[Line]) -> Block:
        """The pieces of a paragraph."""
        content = "\n".join(self.words(line) for line in lines)
        places = [place for line in lines for place in range(line.start, line.end + 1)]
        block: Block = []
        for piece in pieces_of(content):
            is_break = piece.kind == "text" and "\n" in content[piece.start : piece.end]
            end = places[piece.end] if is_break else places[piece.end - 1] + 1
            block.append(piece._replace(start=places[piece.start], end=end))
        return block


def read_lines(text: str) -> Iterator[Line]:
    """The lines of a text."""
    for match in LINE.finditer(text):
        line = match[1]
        if match.start() == len(text) and match.start():
            return
        stripped = line.lstrip("\ufeff \t")
        start = match.start() + len(line) - len(stripped)
        indent = len(line[: len(line) - len(stripped)].lstrip("\ufeff").expandtabs(8))
        blank = not stripped.strip()
        yield Line(start, start + len(stripped.rstrip()), 10**9 if blank else indent)
