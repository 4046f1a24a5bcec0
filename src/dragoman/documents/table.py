"""Tables of texts (CSV, TSV): a column with sources, and one with translations whose empty cells are filled.

The header names the columns: source and target, or the codes or names of the languages.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.file import Reading, decode_text
from dragoman.documents.strings import Rewriting, is_code, read_value, segments_of_blocks
from dragoman.system.errors import DragomanError
from dragoman.text.language_names import code_of_name
from dragoman.text.records import primary

DELIMITERS = ",;\t|"
FIRST_LINES = 100
"""Lines that tell the delimiter of a table."""
SEPARATOR_LINE = re.compile(rf'\A\ufeff?"?sep=([{DELIMITERS}])"?(?:\r\n?|\n|\Z)', re.IGNORECASE)
"""The first line of a CSV that tells Excel its delimiter."""
DOUBLED = re.compile('""')
QUOTED_NAME = re.compile(rf'(?<![^{DELIMITERS}\r\n])"(?:[^"]|"")*+"')
HEADER = re.compile(rf"(?:{QUOTED_NAME.pattern}|[^\r\n])*+")


class Cell(NamedTuple):
    """Characters `start` to `end` of the file, with their quotation marks."""

    text: str
    start: int
    end: int


QUOTED = Syntax(lambda text: text.replace('"', '""').replace("\0", " "), keeps_tags=True)


@dataclass(frozen=True)
class Writing:
    """How the cells of a table are written."""

    delimiter: str
    is_quoted: bool
    """Also a cell without a delimiter, a line end or a quotation mark."""

    def write(self, text: str) -> str:
        """A cell, which begins behind delimiters if its row was too short."""
        content = text.lstrip(self.delimiter)
        inside = content[1:-1]
        needs_quotes = self.is_quoted or re.search(rf'["\r\n{re.escape(self.delimiter)}]|^\s|\s$', inside)
        return text if needs_quotes else text[: len(text) - len(content)] + inside


def read(content: bytes, reading: Reading) -> Document:
    """A table in UTF-8 or UTF-16.

    Raises `DragomanError` if its header does not name the columns of source and target, or a quotation mark
    does not end.
    """
    text, encoding = decode_text(content, reading.name)
    delimiter, source, target = find_columns(text, reading)
    rewriting = Rewriting(text)
    places: list[tuple[int, int]] = []
    for row in list(rows(text, delimiter, reading.name))[1:]:
        if len(row) <= source or is_code(row[source].text):
            continue
        missing = max(0, target + 1 - len(row))
        cell = Cell("", row[-1].end, row[-1].end) if missing else row[target]
        if cell.text.strip() and not reading.everything:
            continue
        is_quoted = text.startswith('"', row[source].start)
        head = delimiter * missing + '"'
        copy = QUOTED.escape(row[source].text)
        write = Writing(delimiter, is_quoted).write
        place = rewriting.slot(cell.start, cell.end, f'{head}{copy}"', write) + len(head)
        places.append((place, place + len(copy)))
    result = rewriting.result()
    blocks: Iterator[tuple[Block, Syntax]] = (
        (block, QUOTED)
        for start, end in places
        for block in read_value(result, start, end, DOUBLED, lambda _: '"').blocks()
    )
    segments = segments_of_blocks(result, blocks, reading)
    return Document(result, segments, tuple(rewriting.slots), encoding)


def find_columns(text: str, reading: Reading) -> tuple[str, int, int]:
    """The delimiter, and the numbers of the columns of source and target. Raises as `read`."""
    header = HEADER.match(text.removeprefix("\ufeff"))
    unquoted = QUOTED_NAME.sub("", header[0]) if header else ""
    delimiter = named_delimiter(text) or max(DELIMITERS, key=unquoted.count)
    first_row = next(rows(text, delimiter, reading.name), [])
    names = [cell.text.strip().strip('"').strip().lower() for cell in first_row]
    source = column(names, ("source", reading.source))
    target = column(names, ("target", "translation", reading.target))
    if source is None or target is None or source == target:
        raise DragomanError(
            f"{reading.name} has to begin with a line that names its columns, among them “source” and "
            f"“target”, or “{reading.source}” and “{reading.target}”; add it, and an empty column for the "
            "translations if there is none."
        )
    return delimiter, source, target


def named_delimiter(text: str) -> str:
    """The delimiter that the first line of a table names; "" if it names none."""
    match = SEPARATOR_LINE.match(text)
    return match[1] if match else ""


def frequent_delimiter(text: str, signs: str) -> str:
    """The one of the signs that most of the first lines of a table have, or the one that it names.

    Excel writes semicolons into a CSV where numbers have a decimal comma, and tabs into "Unicode text".
    """
    lines = list(islice(re.finditer(r"[^\r\n]+", text), FIRST_LINES))
    return named_delimiter(text) or max(signs, key=lambda sign: sum(sign in line[0] for line in lines))


def column(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The number of the first column with one of the names, or else with a code or name of the language.

    `wanted` ends with its code.
    """
    for name in wanted:
        if name.lower() in names:
            return names.index(name.lower())
    codes = list(map(code_of_cell, names))
    language = primary(wanted[-1])
    return codes.index(language) if language in codes else None


def code_of_cell(cell: str) -> str:
    """The language that a cell of a header names by a code or in words; "" for another cell."""
    return primary(cell) if re.fullmatch(r"[A-Za-z]{2,3}([-_]\w+)*", cell) else code_of_name(cell)


def rows(text: str, delimiter: str, name: str) -> Iterator[list[Cell]]:
    """The rows of a table, without empty ones and the line that names the delimiter. Raises as `read`."""
    sign = re.escape(delimiter)
    cell = re.compile(rf'(?:"((?:[^"]|"")*+)"(?=[\r\n{sign}]|\Z)|([^\r\n{sign}]*+))({sign}|\r\n?|\n|\Z)')
    separator = SEPARATOR_LINE.match(text)
    position = separator.end() if separator else 1 if text.startswith("\ufeff") else 0
    row: list[Cell] = []
    while match := cell.match(text, position):
        if match[1] is None and delimiter != "\t" and match[2].startswith('"'):
            break
        content = match[2] if match[1] is None else match[1].replace('""', '"')
        row.append(Cell(content, match.start(), match.start(3)))
        position = match.end()
        if match[3] != delimiter:
            if len(row) > 1 or row[0].end > row[0].start:
                yield row
            row = []
            if not match[3]:
                return
    line = text.count("\n", 0, position) + 1
    raise DragomanError(
        f"{name}, line {line}: a cell begins with a quotation mark, and does not end with one; add it."
    )
