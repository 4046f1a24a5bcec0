"""Resources of .NET (resx): the values of texts. What has a type, comments and the schema stay."""

from html import unescape

from dragoman.documents.document import Block, Document, Syntax
from dragoman.documents.elements import children_of, read_elements, root_of, text_blocks
from dragoman.documents.file import Reading
from dragoman.documents.markup import MARKUP, XML_ENCODING, decode_markup
from dragoman.documents.strings import is_code, segments_of_blocks


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
            blocks += ((block, MARKUP) for block in text_blocks(text, value))
    return Document(text, segments_of_blocks(text, blocks, reading), encoding=encoding)
