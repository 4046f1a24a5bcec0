"""Resources of .NET (resx): the values of texts. What has a type, comments and the schema stay."""

import re
from html import unescape

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.elements import children_of, read_elements, root_of, text_blocks
from dragoman.documents.file import Reading
from dragoman.documents.markup import MARKUP, XML_ENCODING, decode_markup
from dragoman.documents.strings import is_code, segments_of_blocks

KEY = re.compile(r"(?<![\w;])&amp;(?=[^\W_])")
"""What marks a key to press before a word."""


def read(content: bytes, reading: Reading) -> Document:
    """The texts of a resx file. Raises `DragomanError` if it is none, or is not well-formed."""
    text, encoding = decode_markup(content, reading.name, (XML_ENCODING,), reading.encoding is None)
    elements = read_elements(text, reading.name)
    root_of(elements, "root", reading.name)
    children = children_of(elements)
    blocks: list[tuple[Block, Syntax]] = []
    for element in elements:
        if element.name != "data" or {"type", "mimetype"} & element.attributes.keys():
            continue
        value = children.get(element.start, {}).get("value")
        if value is None or element.attributes.get("name", "").startswith(">>"):
            continue  # >> stands before what the designer of forms keeps
        if not is_code(unescape(text[value.first : value.last])):
            keys = [match.span() for match in KEY.finditer(text, value.first, value.last)]
            key = keys[0] if len(keys) == 1 else None  # else they stand for "and"
            blocks += ((with_key(block, key), MARKUP) for block in text_blocks(text, value))
    return Document(text, segments_of_blocks(text, blocks, reading), encoding=encoding)


def with_key(block: Block, key: tuple[int, int] | None) -> Block:
    """The pieces of a block, the mark of a key to press as one that stands alone."""
    return [piece._replace(kind="alone", text="") if piece[2:] == key else piece for piece in block]
