"""String resources of Android: the texts of strings, plurals and arrays of strings, and their escapes."""

import re
from collections.abc import Collection, Iterator
from html import unescape
from itertools import chain

from dragoman.documents.document import Block, Document, Piece, Syntax
from dragoman.documents.elements import Element, read_elements, root_of
from dragoman.documents.file import Reading
from dragoman.documents.markup import (
    BLOCK_ELEMENTS,
    ENTITY,
    FORBIDDEN,
    VOID,
    XML_ENCODING,
    Token,
    decode_markup,
    escape_markup,
    keep_elements,
    read_markup,
    text_pieces,
)
from dragoman.documents.strings import is_code, segments_of_blocks
from dragoman.translation.sentence_ends import CONTROL

TEXT = re.compile(
    r"(?P<entity>&[#\w.-]{1,40};)|(?P<escape>\\u[0-9A-Fa-f]{4}|\\[\s\S])|(?P<quote>\")|(?P<space>\s+)"
    r"|(?P<tag></?(?P<name>[A-Za-z][^\s/<>]*+)[^<>]*+>)"
    rf"|[^&\\\"\s<{CONTROL}]+(?: [^&\\\"\s<{CONTROL}]+)*|[\s\S]"
)
NAMED = {"n": "\n", "t": "\t"}
NAMES = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": " "}
REFERENCE = re.compile(r"[@?][\w:.+*-]+/?[\w.]*")
CDATA = "<![CDATA["


def escape_android(text: str) -> str:
    """A text as it stands in an element. Of several spaces all but the first are escapes."""
    text = FORBIDDEN.sub(" ", text)
    text = re.sub(r"[\\'\"\n\t\r]", lambda match: NAMES[match[0]], text)
    text = re.sub(r"(?<= ) ", r"\\u0020", text)
    return escape_markup(re.sub(r"\A( *)([@?])", r"\1\\\2", text))  # it is no reference


SYNTAX = Syntax(escape_android, keeps_tags=True)


def is_android(content: bytes) -> bool:
    """Whether an XML file is one of Android's resources with texts."""
    text = content.decode(errors="replace")
    starts = (token for token in read_markup(text, is_html=False) if token.kind in {"start", "empty"})
    root = next(starts, None)
    return (
        root is not None
        and root.name == "resources"
        and re.search(r"<(?:string|plurals|string-array)\s[^<>]*\bname\s*=", text) is not None
    )


def read(content: bytes, reading: Reading) -> Document:
    """The texts of a file of resources. Raises `DragomanError` if it is none, or is not well-formed."""
    text, encoding = decode_markup(content, reading.name, (XML_ENCODING,), reading.encoding is None)
    elements = read_elements(text, reading.name)
    root = root_of(elements, "resources", reading.name)
    entities = set(ENTITY.findall(text, 0, root.start))
    blocks: list[tuple[Block, Syntax]] = []
    for element in elements:
        if is_text(element):
            plain = re.sub("<[^<>]*>", "", text[element.first : element.last]).strip()
            if not REFERENCE.fullmatch(plain) and not is_code(unescape(plain)):
                blocks += ((block, SYNTAX) for block in element_texts(text, element, entities))
    return Document(text, segments_of_blocks(text, blocks, reading), encoding=encoding)


def is_text(element: Element) -> bool:
    """Whether an element is a string, or an item of plurals or of an array of strings, to be translated."""
    parent = element.parent
    if (
        parent is None
        or not element.is_translated
        or "false"
        in {
            element.attributes.get("translatable"),
            parent.attributes.get("translatable"),
        }
    ):
        return False
    return element.name == "string" or (element.name == "item" and parent.name in {"plurals", "string-array"})


def element_texts(text: str, element: Element, entities: Collection[str]) -> Iterator[Block]:
    """The lines of an element's text; its tags are tags, and xliff:g is kept."""
    tokens = read_markup(text[element.first : element.last], is_html=False)
    names = {token.name for token in tokens if token.name.rpartition(":")[2] == "g"}
    block: Block = []
    for token in keep_elements(tokens, names):
        start, end = token.start + element.first, token.end + element.first
        pieces: Iterator[Piece | None]
        if token.kind == "text":
            pieces = android_pieces(text, start, end, entities)
        elif text.startswith(CDATA, start):
            inside = android_pieces(text, start + len(CDATA), end - 3, entities)
            pieces = chain([None], inside, [None])  # no sentence goes over its edges
        else:
            pieces = iter([tag_piece(token, start, end)])
        for piece in pieces:
            if piece is None:
                yield block
                block = []
            else:
                block.append(piece)
    yield block


def tag_piece(token: Token, start: int, end: int) -> Piece:
    """A tag, comment or element that is kept."""
    if token.kind in {"start", "end"}:
        return Piece("open" if token.kind == "start" else "close", token.name, start, end)
    return Piece("alone", "word" if token.is_kept else "", start, end)


def android_pieces(text: str, start: int, end: int, entities: Collection[str]) -> Iterator[Piece | None]:
    """The pieces of a text: escapes as their characters, tags of HTML in it as tags. None ends a line."""
    for match in TEXT.finditer(text, start, end):
        source, place = match[0], match.span()
        if match["entity"]:
            yield from text_pieces(text, *place, entities)
        elif match["escape"]:
            code = source[1:]
            character = chr(int(code[1:], 16)) if len(code) == 5 else NAMED.get(code, code)
            yield None if re.match(f"[{CONTROL}]", character) else Piece("text", character, *place)
        elif match["quote"]:
            yield Piece("alone", "", *place)
        elif match["space"]:
            yield Piece("text", " ", *place)
        elif match["tag"]:
            name = match["name"].lower()
            if name in BLOCK_ELEMENTS:
                yield None
            elif name in VOID or source.endswith("/>"):
                yield Piece("alone", "", *place)
            else:
                yield Piece("close" if source.startswith("</") else "open", name, *place)
        elif re.match(f"[{CONTROL}]", source):
            yield None
        else:
            yield Piece("text", source, *place)
