"""Files of Microsoft Excel (.xlsx): texts of cells, comments, charts and text boxes. Formulas are kept."""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from html import unescape

from dragoman.documents.document import Syntax, compose
from dragoman.documents.drawing import PART, read_drawing
from dragoman.documents.file import Archive, Part, Reading
from dragoman.documents.markup import Token, attributes_of, read_markup
from dragoman.documents.nested import Paragraph, put_back, rewrite
from dragoman.documents.office import (
    OfficePart,
    checked_format,
    content_types,
    decode_part,
    element_ends,
    ending_advice,
    escape_text,
    plain_characters,
    prefix_of,
    read_office,
)
from dragoman.documents.runs import Item, normal_form, run_blocks, write_runs
from dragoman.documents.strings import is_code
from dragoman.system.errors import DragomanError

NAMESPACES = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",
)
TEXTS = re.compile(r"spreadsheetml\.(?:sharedStrings|worksheet|comments)\+xml\Z")
COLUMNS = re.compile(r"spreadsheetml\.(?:table|pivotCacheDefinition)\+xml\Z")
LIST = re.compile(
    r"""<(?:\w+:)?dataValidation\b(?=[^<>]*\stype\s*=\s*["']list["'])[^<>]*>\s*"""
    r"""<(?:\w+:)?formula1>(?:<(?:\w+:)?f>)?\s*((?:"|&quot;)[^<]*)"""
)
"""The values that a cell may have, if they are not those of other cells."""
LINE_END = re.compile(r"(\r?\n|&#(?:10|13|x[aAdD]);|_x[0-9A-Fa-f]{4}_)")
"""A line end in a cell, or another character as Excel writes it."""
ESCAPED = re.compile("_(?=x[0-9A-Fa-f]{4}_)")


def escape_cell(text: str) -> str:
    """A text in a cell: what looks like a character as Excel writes it stays text."""
    return ESCAPED.sub("_x005F_", escape_text(text))


SHEET = Syntax(escape_cell, keeps_tags=True)


def read(content: bytes, reading: Reading) -> Archive:
    """A file of Excel. Raises `DragomanError` if it is damaged, or has no sheets."""
    members = read_office(content, reading)
    types = content_types(members, reading.name)
    if not any("worksheet" in kind or "sheet.main" in kind for kind in types.values()):
        raise DragomanError(f"{reading.name} has no sheets{ending_advice(members)}.")
    codes = {
        column
        for name, kind in types.items()
        if COLUMNS.search(kind)
        for column in column_names(*decode_part(members[name], reading.name))
    }
    for name, kind in types.items():
        if "worksheet" in kind and b"dataValidation" in members[name]:
            codes.update(listed_values(*decode_part(members[name], reading.name)))
    parts: dict[str, Part] = {}
    for name, kind in types.items():
        if TEXTS.search(kind) and (b"inlineStr" in members[name] or "worksheet" not in kind):
            parts[name] = read_texts(members[name], reading, codes)
        elif PART.search(kind):
            parts[name] = read_drawing(members[name], reading)
    return Archive(content, parts)


def column_names(text: str, _: str) -> Iterator[str]:
    """The names of the columns of a table, or of the cells that a pivot table reads.

    The cells above them have to have these texts: Excel repairs the file of another table, and a pivot table
    finds no other column.
    """
    for token in read_markup(text, is_html=False):
        if token.name.endswith(("tableColumn", "cacheField")) and token.kind in {"start", "empty"}:
            attributes = attributes_of(text[token.start + 1 + len(token.name) : token.end - 1])
            yield normal_text(attributes.get("name", ""))


def listed_values(text: str, _: str) -> Iterator[str]:
    """The values in lists of allowed values. A cell with another one would be invalid, so they stay."""
    for match in LIST.finditer(text):
        values = unescape(match[1]).strip().removeprefix('"').removesuffix('"')
        for value in values.replace('""', '"').split(","):
            yield " ".join(value.split())


def normal_text(xml: str) -> str:
    """A text of a cell, of a column's name or of a list, to compare them."""
    return " ".join(LINE_END.sub(" ", unescape(xml)).split())


def read_texts(content: bytes, reading: Reading, codes: Collection[str]) -> OfficePart:
    """A member with texts, but these, which others refer to. Raises as `read`."""
    text, encoding = decode_part(content, reading.name)
    tokens = read_markup(text, is_html=False)
    prefix = prefix_of(text, *NAMESPACES)
    ends = element_ends(tokens, reading.name)

    def text_form(paragraph: Paragraph, last: int) -> tuple[int, str]:
        items = list(text_items(paragraph, last, tokens, ends, prefix))
        words = "".join(item.xml if item.kind == "text" else " " for item in items)
        first = tokens[paragraph.first - 1].end
        cell = normal_text(words)
        return first, "" if cell in codes or is_code(cell) else normal_form(items)

    rewritten, slots = rewrite(text, tokens, {f"{prefix}{name}" for name in ("si", "is", "text")}, text_form)
    document = compose(rewritten, run_blocks(rewritten), reading.source, reading.split, SHEET)
    return OfficePart(replace(document, slots=slots, encoding=encoding), partial(finish, prefix))


def text_items(
    paragraph: Paragraph, last: int, tokens: list[Token], ends: list[int], prefix: str
) -> Iterator[Item]:
    """The parts of a text: one text, or runs; several lines become runs.

    A format begins with the tag of the run; that of a text without runs is "".
    """
    is_run = False
    properties = ""
    place = paragraph.first
    while place < last:
        token, end = tokens[place], ends[place]
        name = token.name.removeprefix(prefix)
        if token.kind == "start" and name == "r":
            is_run, properties = True, f"<{prefix}r>"
        elif token.kind in {"start", "empty"} and name == "rPr":
            properties = checked_format(f"<{prefix}r>" + paragraph.source(token.start, tokens[end].end))
            place = end
        elif token.kind == "start" and name == "t":
            words = plain_characters(paragraph.text[token.end : tokens[end].start])
            lines = LINE_END.split(words)
            text_format = properties if is_run or len(lines) == 1 else f"<{prefix}r>"
            for number, line in enumerate(lines):
                if number % 2:
                    yield Item("break", run(prefix, text_format, line))
                elif line:
                    yield Item("text", line, text_format)
            place = end
        elif token.kind in {"start", "empty"}:
            if name != "rPh":  # how the text is pronounced; what follows it stays the last
                yield Item("break", paragraph.source(token.start, tokens[end].end))
            place = end
        place += 1


def run(prefix: str, text_format: str, text: str) -> str:
    """A run with a format; without, the text only."""
    closing = f"</{prefix}r>" if text_format else ""
    return f'{text_format}<{prefix}t xml:space="preserve">{text}</{prefix}t>{closing}'


def finish(prefix: str, text: str) -> str:
    """The member as Excel has it."""
    return put_back(write_runs(text, partial(run, prefix)))
