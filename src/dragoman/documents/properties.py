"""Properties of Java: the values of keys, also in XML. Keys and comments stay."""

import json
import re
from collections.abc import Iterator

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.elements import read_elements, root_of, text_blocks
from dragoman.documents.file import Reading, decode_text
from dragoman.documents.icu import blocks_of_message, escape_branch
from dragoman.documents.markup import MARKUP, XML_ENCODING, decode_markup
from dragoman.documents.strings import Value, is_code, part_pattern, read_value, segments_of_blocks
from dragoman.system.errors import DragomanError

LINE = re.compile(
    r"[ \t\f]*+(?:[#!][^\r\n]*+|(?P<key>(?:[^\\=: \t\f\r\n]|\\(?:\r\n|[\s\S]))*+)[ \t\f]*+[=:]?[ \t\f]*+"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[\s\S]|\Z))*+))(?:\r\n?|\n|\Z)"
)
ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
    r"|\\(?:\r\n|[\r\n])[ \t\f]*|\\[\s\S]"
)
NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
NAMES = {"\\": "\\\\", **{character: f"\\{name}" for name, character in NAMED.items()}}
XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml\s|!DOCTYPE\s+properties\s)")
MESSAGE = re.compile(r"\{\d+(?:,[^{}]*)?\}")
"""A place of MessageFormat, in whose texts ' quotes and '' is an apostrophe."""
PARTS = part_pattern(r"\{\d+,choice,(?:[^{}]|\{[^{}]*\})*\}|\{\d+,[^{}]*\}")


def escape_text(text: str) -> str:
    """A text as it stands in a value."""
    return re.sub(r"[\\\t\n\r\f]", lambda match: NAMES[match[0]], text)


def escape_from(code: int) -> Syntax:
    r"""The syntax of a file whose encoding has the characters before `code`; others are written as \uXXXX."""

    def escape(text: str) -> str:
        return "".join(
            character if ord(character) < code else json.dumps(character)[1:-1]
            for character in escape_text(text)
        )

    return Syntax(escape, keeps_tags=True)


def read(content: bytes, reading: Reading) -> Document:
    """The values of a file in UTF-8, or in ISO 8859-1 if it is not UTF-8.

    Raises `DragomanError` for NUL, and for properties in XML that are not well-formed.
    """
    if XML.match(content):
        return read_xml(content, reading)
    try:
        text, encoding = decode_text(content, reading.name)
    except DragomanError:
        if b"\0" in content:
            raise
        text, encoding = content.decode("latin-1"), "latin-1"
    is_ascii = text.removeprefix("\ufeff").isascii()
    syntax = escape_from(128 if is_ascii else 256 if encoding == "latin-1" else 0x110000)
    doubled = Syntax(lambda text: syntax.escape(text.replace("'", "''")), keeps_tags=True)
    message = Syntax(lambda text: syntax.escape(escape_branch(text)), keeps_tags=True)
    blocks: list[tuple[Block, Syntax]] = []
    for value in values(text):
        if is_code(value.text):
            continue
        if branches := blocks_of_message(value):
            blocks += ((block, message) for block in branches)
        elif MESSAGE.search(value.text):
            blocks += ((block, doubled) for block in without_doubled(value).blocks(PARTS))
        else:
            blocks += ((block, syntax) for block in value.blocks(PARTS))
    return Document(text, segments_of_blocks(text, blocks, reading), encoding=encoding)


def read_xml(content: bytes, reading: Reading) -> Document:
    """The entries of properties in XML (`Properties.storeToXML`). Raises `DragomanError` if it has none."""
    text, encoding = decode_markup(content, reading.name, (XML_ENCODING,))
    elements = read_elements(text, reading.name)
    root_of(elements, "properties", reading.name)
    blocks: list[tuple[Block, Syntax]] = []
    for element in elements:
        if element.name == "entry" and not is_code(text[element.first : element.last]):
            blocks += ((block, MARKUP) for block in text_blocks(text, element))
    return Document(text, segments_of_blocks(text, blocks, reading), encoding=encoding)


def values(text: str) -> Iterator[Value]:
    """The values of the keys, in order."""
    position = 1 if text.startswith("\ufeff") else 0
    while position < len(text) and (line := LINE.match(text, position)):
        position = line.end()
        if line["value"]:
            yield read_value(text, *line.span("value"), ESCAPE, unescape)


def unescape(source: str) -> str:
    """The character of an escape; none for a line that goes on."""
    if source[1] == "u" and len(source) >= 6:
        return bytes.fromhex(source.replace("\\u", "")).decode("utf-16-be", "surrogatepass")
    return "" if source[1] in "\r\n" else NAMED.get(source[1], source[1])


def without_doubled(value: Value) -> Value:
    """A value with each '' as the apostrophe that it stands for."""
    places: list[int] = []
    ends: list[int] = []
    position = 0
    while position < len(value.text):
        size = 2 if value.text.startswith("''", position) else 1
        places.append(position)
        ends.append(value.ends[position + size - 1])
        position += size
    return Value(
        "".join(value.text[place] for place in places), [value.starts[place] for place in places], ends
    )
