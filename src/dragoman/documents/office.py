"""Files of office programs: zip archives with XML members, which have to be well-formed."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from xml.parsers import expat

from dragoman.documents.document import Document, Segment, Syntax
from dragoman.documents.file import Reading, read_members
from dragoman.documents.markup import XML_ENCODING, Token, attributes_of, decode_markup, read_markup
from dragoman.system.errors import DragomanError
from dragoman.translation.sentence_ends import CONTROL

MAX_TAGS = 3_000_000  # of a member: each takes some 200 bytes when it is read
MAX_FORMAT = 20_000  # characters of the format of a text: it is written for each part of the text
OLE = b"\xd0\xcf\x11\xe0"
OTHERS = {
    OLE: "is protected with a password, or it is a file of an old program (.doc, .xls, .ppt); save it "
    "without a password, as .docx, .xlsx, .pptx or OpenDocument",
    b"%PDF": "is a PDF; translate the document that it was made from",
    b"{\\rtf": "is an RTF file; save it as .docx or .odt",
}
"""What other files begin with, and what to do with them."""
ENDING_OF_MEMBERS = {
    "word/": ".docx",
    "ppt/": ".pptx",
    "xl/": ".xlsx",
    "META-INF/container.xml": ".epub",
    "content.xml": ".odt, .odp or .ods",
}
"""The endings of archives by what the name of one of their members begins with."""
NOT_XML = re.compile(f"[{CONTROL}\u2028\u2029\\s\ud800-\udfff\ufffe\uffff]")


def escape_text(text: str) -> str:
    """A text in XML. Line ends, tabs, control characters and what XML does not have become spaces."""
    return escape(NOT_XML.sub(to_space, text), quote=False)


def to_space(match: re.Match[str]) -> str:
    """A space; a space of another width stays."""
    return match[0] if match[0] in "\xa0\u2007\u202f\u3000" or "\u2000" <= match[0] <= "\u200a" else " "


XML_IN_TEXT = re.compile(r"<!\[CDATA\[(.*?)\]\]>|<!--.*?-->|<\?.*?\?>", re.DOTALL)


def plain_characters(xml: str) -> str:
    """A text without CDATA sections, comments and processing instructions."""
    return XML_IN_TEXT.sub(lambda match: escape_text(match[1] or ""), xml) if "<" in xml else xml


OFFICE = Syntax(escape_text, keeps_tags=True)


@dataclass(frozen=True)
class OfficePart:
    """A member whose paragraphs are in a normal form, which `finish` writes as the format has it."""

    document: Document
    finish: Callable[[str], str]

    @property
    def segments(self) -> Sequence[Segment]:
        """Its sentences."""
        return self.document.segments

    def write(self, translations: Sequence[str]) -> bytes:
        """The member with the translations. Raises as `Document.join`."""
        return self.finish(self.document.join(translations)).encode(self.document.encoding)


def read_office(content: bytes, reading: Reading) -> dict[str, bytes]:
    """The members of an office file. Raises as `read_members`, and for files of other programs."""
    for start, advice in OTHERS.items():
        if content.startswith(start):
            raise DragomanError(f"{reading.name} {advice}.")
    return read_members(content, reading.name, reading.limits)


def ending_advice(members: Collection[str]) -> str:
    """How the name of an archive of another kind has to end; "" if its members do not tell."""
    for start, ending in ENDING_OF_MEMBERS.items():
        if any(name.startswith(start) for name in members):
            return f"; it is a file of another kind, whose name ends in {ending}"
    return ""


def content_types(members: dict[str, bytes], name: str) -> dict[str, str]:
    """The members of an Office Open XML file with their types, without those that only their endings name.

    Raises `DragomanError` if it is no such file.
    """
    if "[Content_Types].xml" not in members:
        raise DragomanError(f"{name} is a zip file, but not one of Microsoft Office{ending_advice(members)}.")
    text, _ = decode_part(members["[Content_Types].xml"], name)
    types: dict[str, str] = {}
    for token in read_markup(text, is_html=False):
        if token.kind in {"start", "empty"} and token.name.endswith("Override"):
            attributes = attributes_of(text[token.start + 1 + len(token.name) : token.end - 1])
            part = attributes.get("partname", "").lstrip("/")
            if part in members:
                types[part] = attributes.get("contenttype", "")
    return {part: types[part] for part in members if part in types}


def decode_part(content: bytes, name: str) -> tuple[str, str]:
    """The text of an XML member of the file `name`, and its encoding.

    Raises `DragomanError` if it is not well-formed, or has a document type: its entities are not read.
    """
    text, encoding = decode_page(content, name)
    parser = expat.ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = partial(refuse_doctype, name)
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise DragomanError(f"{name} is damaged: a part of it is no XML ({error}).") from error
    return text, encoding


def decode_page(content: bytes, name: str) -> tuple[str, str]:
    """The text of a member with markup, and its encoding.

    Raises `DragomanError` if it declares another one, or has more tags than memory is for.
    """
    text, encoding = decode_markup(content, name, (XML_ENCODING,))
    if (count := text.count("<")) > MAX_TAGS:
        raise DragomanError(
            f"{name} has a part with {count:,} tags, and {MAX_TAGS:,} are allowed; divide it."
        )
    return text, encoding


def refuse_doctype(name: str, *_: object) -> None:
    """Raise `DragomanError`."""
    raise DragomanError(f"{name} is damaged: a part of it has a document type, which office files have not.")


def checked_format(text_format: str) -> str:
    """The format of a text, as XML. Raises `DragomanError` if it is longer than any program writes it."""
    if len(text_format) > MAX_FORMAT:
        raise DragomanError(
            f"The document has a text whose format has {len(text_format):,} characters of XML, and "
            f"{MAX_FORMAT:,} are allowed; remove this format."
        )
    return text_format


def element_ends(tokens: Sequence[Token], name: str) -> list[int]:
    """For each token the place of the one that ends its element: itself, if it is no start tag.

    Raises `DragomanError` if tags have no partners.
    """
    ends = list(range(len(tokens)))
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind == "start":
            opened.append(place)
        elif token.kind == "end":
            if not opened or tokens[opened[-1]].name != token.name:
                break
            ends[opened.pop()] = place
    else:
        if not opened:
            return ends
    raise DragomanError(f"{name} is damaged: a part of it is no XML.")


def prefix_of(text: str, *namespaces: str) -> str:
    """What stands before the names of a namespace in an XML text: "w:", for example."""
    match = re.search(
        rf"""\sxmlns(?::([\w.-]+))?\s*=\s*["'](?:{"|".join(map(re.escape, namespaces))})["']""", text
    )
    return f"{match[1]}:" if match and match[1] else ""
