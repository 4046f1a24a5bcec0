"""The elements of an XML document with their positions, for formats whose elements have meanings."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.documents.document import Block
from dragoman.documents.markup import Token, attributes_of, read_markup, to_blocks
from dragoman.system.errors import DragomanError

MESSAGE = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,")
"""The start of an ICU message, of which markup is not translated."""


@dataclass(frozen=True)
class Element:
    """Characters `start` to `end` of a document; its content is at `first` to `last`."""

    name: str
    """Without its prefix."""
    attributes: dict[str, str]
    """By their names in lower case."""
    parent: "Element | None"
    is_translated: bool
    """translate="no" is not at it, nor at what it is in."""
    keeps_space: bool
    """It, or what it is in, has xml:space="preserve"."""
    start: int
    first: int
    last: int
    end: int


def read_elements(text: str, name: str) -> list[Element]:
    """The elements of an XML document, in the order of their start tags.

    Raises `DragomanError` if an end tag is missing or is one of another element.
    """
    tokens = read_markup(text, is_html=False)
    partners = pair(text, tokens, name)
    elements: list[Element] = []
    opened: list[Element] = []
    for place, token in enumerate(tokens):
        if token.kind in {"start", "empty"}:
            attributes = attributes_of(text[token.start + 1 + len(token.name) : token.end - 1])
            parent = opened[-1] if opened else None
            closing = tokens[partners[place]] if token.kind == "start" else token
            translate, space = attributes.get("translate"), attributes.get("xml:space")
            element = Element(
                token.name.rpartition(":")[2],
                attributes,
                parent,
                translate != "no" and (translate == "yes" or parent is None or parent.is_translated),
                space == "preserve" or (space is None and parent is not None and parent.keeps_space),
                token.start,
                token.end,
                closing.start if token.kind == "start" else token.end,
                closing.end,
            )
            elements.append(element)
            if token.kind == "start":
                opened.append(element)
        elif token.kind == "end":
            opened.pop()
    return elements


def pair(text: str, tokens: Sequence[Token], name: str) -> dict[int, int]:
    """The place of each start tag's end tag. Raises `DragomanError` as `read_elements`."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.kind == "start":
            opened.append(place)
        elif token.kind == "end":
            if not opened or tokens[opened[-1]].name != token.name:
                line = text.count("\n", 0, token.start) + 1
                raise DragomanError(
                    f"{name}, line {line}: </{token.name}> ends no element; xmllint says what is wrong."
                )
            partners[opened.pop()] = place
    if opened:
        line = text.count("\n", 0, tokens[opened[-1]].start) + 1
        raise DragomanError(
            f"{name}, line {line}: <{tokens[opened[-1]].name}> has no end; the file may be cut off."
        )
    return partners


def root_of(elements: Sequence[Element], root: str, name: str) -> Element:
    """The root element. Raises `DragomanError` if its name is another one than `root`."""
    if not elements or elements[0].name != root:
        start = f"begins with <{elements[0].name}>" if elements else "has no elements"
        raise DragomanError(f"{name} {start}, and <{root}> is expected; give its format with --format.")
    return elements[0]


def children_of(elements: Iterable[Element]) -> dict[int, dict[str, Element]]:
    """The first child of each name, by where its parent starts."""
    children: dict[int, dict[str, Element]] = {}
    for element in elements:
        if element.parent:
            children.setdefault(element.parent.start, {}).setdefault(element.name, element)
    return children


def set_attribute(tag: str, name: str, value: str) -> str:
    """A start tag in which an attribute has a value."""
    attribute = re.compile(rf"""(\s{re.escape(name)}\s*=\s*)(?:"[^"]*"|'[^']*')""")
    if attribute.search(tag):
        return attribute.sub(lambda match: f'{match[1]}"{value}"', tag, count=1)
    end = re.search(r"(?<!\s)\s*/?>\Z", tag)
    place = end.start() if end else len(tag)
    return f'{tag[:place]} {name}="{value}"{tag[place:]}'


def space_before(text: str, position: int) -> str:
    """The white space before a position."""
    before = text[max(0, position - 200) : position]
    return before[len(before.rstrip()) :]


def text_blocks(text: str, element: Element) -> Iterator[Block]:
    """The lines of an element's text, in which all tags stand within sentences."""
    tokens = [
        token._replace(start=token.start + element.first, end=token.end + element.first)
        for token in read_markup(text[element.first : element.last], is_html=False)
    ]
    return element_blocks(text, tokens, [False] * len(tokens), keeps_lines=True)


def element_blocks(
    text: str, tokens: Sequence[Token], splits: Sequence[bool], keeps_lines: bool
) -> Iterator[Block]:
    """The blocks of tokens as `to_blocks` gives them, also cut at line ends if these are kept.

    Blocks with a message of ICU are left out.
    """
    for block in to_blocks(text, tokens, splits, ()):
        lines: list[Block] = [[]]
        for piece in block:
            is_end = keeps_lines and piece.kind == "text" and piece.text == " "
            if is_end and "\n" in text[piece.start : piece.end]:
                lines.append([])
            else:
                lines[-1].append(piece)
        if not MESSAGE.search("".join(piece.text for piece in block if piece.kind == "text")):
            yield from lines
