"""Books (.epub): the pages in the order of reading, the table of contents, and the title."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import unquote

from dragoman.documents.document import Block, Document, compose
from dragoman.documents.file import Archive, Part, Reading
from dragoman.documents.markup import (
    MARKUP,
    Token,
    attributes_of,
    html,
    language_of_root,
    read_markup,
    text_pieces,
    xml,
)
from dragoman.documents.office import decode_page, ending_advice, read_office
from dragoman.system.errors import DragomanError
from dragoman.text.settings import UNKNOWN_LANGUAGE

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""The ways to hide a font, which hide no text."""
PAGES = frozenset(("application/xhtml+xml", "text/html", "text/x-oeb1-document"))
CONTENTS = "application/x-dtbncx+xml"
ROOT_LANGUAGE = re.compile(rb"""(\s(?:xml:)?lang\s*=\s*["'])[\w-]+(["'])""")
BOOK_LANGUAGE = re.compile(rb"(<(?:\w+:)?language(?:\s[^<>]*)?>)[^<>]*")


@dataclass(frozen=True)
class Package:
    """The list of a book's parts."""

    name: str
    """Of its member."""
    text: str
    encoding: str
    pages: tuple[str, ...]
    """The members with pages, in the order of reading, and then the one with the navigation."""
    contents: tuple[str, ...]
    """The members with tables of contents as books had them before the navigation."""
    language: str


def read(content: bytes, reading: Reading) -> Archive:
    """A book. Raises `DragomanError` if it is damaged or encrypted."""
    members = read_office(content, reading)
    encryption = members.get(ENCRYPTION, b"").decode("utf-8", "replace")
    algorithms = {
        attributes_of(encryption[token.start + 1 : token.end - 1]).get("algorithm", "")
        for token, _ in tags(encryption)
        if token.name.rpartition(":")[2] == "EncryptionMethod"
    }
    if not algorithms <= set(FONTS):
        raise DragomanError(f"{reading.name} is encrypted (DRM); only books without it can be translated.")
    package = read_package(members, reading)
    parts: dict[str, Part] = {package.name: read_title(package, reading)}
    for name in package.pages:
        text, encoding = decode_page(members[name], f"{reading.name}, {name}")
        parts[name] = replace(html(text, reading.source, split=reading.split), encoding=encoding)
    for name in package.contents:
        text, encoding = decode_page(members[name], f"{reading.name}, {name}")
        document = xml(text, reading.source, split=reading.split, ignore_tags=("docAuthor", "ncx:docAuthor"))
        parts[name] = replace(document, encoding=encoding)
    named = {name: partial(name_language_of_root, reading.target) for name in parts}
    named[package.name] = partial(name_language_of_book, reading.target)
    texts = (part.text for part in parts.values() if isinstance(part, Document))
    languages = (language_of_root(text, is_html=True) for text in texts)
    language = package.language or next(filter(None, languages), "")
    return Archive(content, parts, language, named if reading.target != UNKNOWN_LANGUAGE else {})


def read_package(members: dict[str, bytes], reading: Reading) -> Package:
    """The list of a book's parts. Raises as `read`."""
    name = next((path for path in package_names(members, reading.name) if path in members), None)
    if name is None:
        raise DragomanError(
            f"{reading.name} is a zip file, but no book: it does not say where its parts are"
            f"{ending_advice(members)}."
        )
    text, encoding = decode_page(members[name], f"{reading.name}, {name}")
    items: dict[str, tuple[str, str]] = {}
    spine: list[str] = []
    navigation: list[str] = []
    language = ""
    for token, following in tags(text):
        attributes = attributes_of(text[token.start + 1 + len(token.name) : token.end - 1])
        kind = token.name.rpartition(":")[2]
        path = posixpath.join(posixpath.dirname(name), unquote(attributes.get("href", "")))
        if kind == "item":
            items[attributes.get("id", "")] = (
                posixpath.normpath(path),
                attributes.get("media-type", "").lower(),
            )
            if "nav" in attributes.get("properties", "").split():
                navigation.append(attributes.get("id", ""))
        elif kind == "itemref":
            spine.append(attributes.get("idref", ""))
        elif kind == "language" and not language:
            language = following.strip()
    pages = [items[key][0] for key in [*spine, *navigation] if key in items and items[key][1] in PAGES]
    contents = [path for path, media_type in items.values() if media_type == CONTENTS]
    return Package(name, text, encoding, present(pages, members), present(contents, members), language)


def present(names: Iterable[str], members: Mapping[str, bytes]) -> tuple[str, ...]:
    """The names that are those of members, each once."""
    return tuple(dict.fromkeys(name for name in names if name in members))


def package_names(members: dict[str, bytes], name: str) -> Iterator[str]:
    """The paths that the container gives."""
    if CONTAINER in members:
        text, _ = decode_page(members[CONTAINER], f"{name}, {CONTAINER}")
        for token, _ in tags(text):
            if token.name.endswith("rootfile"):
                yield attributes_of(text[token.start : token.end - 1]).get("full-path", "")


def tags(text: str) -> Iterator[tuple[Token, str]]:
    """The start tags, and the text that follows each."""
    tokens = read_markup(text, is_html=False)
    for place, token in enumerate(tokens):
        if token.kind in {"start", "empty"}:
            following = tokens[place + 1] if place + 1 < len(tokens) else token
            yield token, text[following.start : following.end] if following.kind == "text" else ""


def read_title(package: Package, reading: Reading) -> Document:
    """The titles in the list of parts."""
    blocks: list[Block] = []
    for token, following in tags(package.text):
        if token.name.rpartition(":")[2] == "title" and token.kind == "start":
            pieces = text_pieces(package.text, token.end, token.end + len(following), ())
            blocks.append([piece for piece in pieces if piece])
    document = compose(package.text, blocks, reading.source, reading.split, MARKUP)
    return replace(document, encoding=package.encoding)


def name_language_of_root(target: str, content: bytes) -> bytes:
    """A page with another language at its first element."""
    root = re.search(rb"<(?:\w+:)?(?:html|ncx)\s[^<>]*", content)
    if root is None:
        return content
    tag = ROOT_LANGUAGE.sub(rb"\g<1>" + target.encode() + rb"\2", root[0])
    return content[: root.start()] + tag + content[root.end() :]


def name_language_of_book(target: str, content: bytes) -> bytes:
    """The list of parts with another language of the book, the first one."""
    return BOOK_LANGUAGE.sub(rb"\g<1>" + target.encode(), content, count=1)
