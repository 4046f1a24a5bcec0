"""XLIFF 1.2 and 2.x: what has no target yet gets one. Inline codes are marks of the sentences.

A `<target>` is a slot with a copy of its `<source>` (or `<seg-source>`); in 2.x the slot has all of its
`<segment>`, whose state changes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from dragoman.documents.document import Block, Document
from dragoman.documents.elements import (
    Element,
    children_of,
    element_blocks,
    read_elements,
    root_of,
    set_attribute,
    space_before,
)
from dragoman.documents.file import Reading
from dragoman.documents.markup import (
    MARKUP,
    XML_ENCODING,
    Token,
    attributes_of,
    decode_markup,
    escape_markup,
    keep_elements,
    read_markup,
)
from dragoman.documents.strings import DeclaringFile, Rewriting, segments_of_blocks
from dragoman.text.settings import UNKNOWN_LANGUAGE

CODES = frozenset(("bpt", "ept", "ph", "it", "x", "bx", "ex", "sc", "ec", "cp", "sm", "em"))
"""Elements that stand for code, with what is in them."""
OPENING = frozenset(("bpt", "bx", "sc"))
CLOSING = frozenset(("ept", "ex", "ec"))
CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
UNTRANSLATED = frozenset(("new", "needs-translation", "initial"))
"""States of a target that is not a translation yet."""


def read(content: bytes, reading: Reading) -> DeclaringFile:
    """An XLIFF file. Raises `DragomanError` if it is none, is not well-formed, or is not in UTF-8."""
    text, encoding = decode_markup(content, reading.name, (XML_ENCODING,), reading.encoding is None)
    elements = read_elements(text, reading.name)
    root = root_of(elements, "xliff", reading.name)
    is_second = root.attributes.get("version", "").startswith("2")
    children = children_of(elements)
    parts = segments_of(elements)
    rewriting = Rewriting(text)
    places: list[tuple[int, int, bool]] = []
    language, target = root.attributes.get("srclang", ""), ""
    for element in elements:
        if element.name == ("xliff" if is_second else "file"):
            language = language or element.attributes.get("source-language", "")
            attribute = "trgLang" if is_second else "target-language"
            target = target or element.attributes.get(attribute.lower(), "")
            declare(rewriting, element, attribute, reading.target)
        elif element.name == ("segment" if is_second else "trans-unit"):
            inside = children.get(element.start, {})
            places += rewrite_unit(rewriting, element, inside, parts, reading, is_second)
    result = rewriting.result()
    blocks = (
        (block, MARKUP)
        for start, end, keeps_space in places
        for block in target_blocks(result, start, end, keeps_space)
    )
    segments = segments_of_blocks(result, blocks, reading)
    document = Document(result, segments, tuple(rewriting.slots), encoding, language)
    return DeclaringFile(content, document, target)


def declare(rewriting: Rewriting, element: Element, attribute: str, language: str) -> None:
    """Say the target language in the attribute of an element that does not say it."""
    if language != UNKNOWN_LANGUAGE and not element.attributes.get(attribute.lower()):
        tag = rewriting.text[element.start : element.first]
        rewriting.replace(element.start, element.first, set_attribute(tag, attribute, language))


def segments_of(elements: Iterable[Element]) -> dict[int, dict[str, Element]]:
    """The segments of each `<seg-source>` and `<target>`, by where it starts and by their names."""
    segments: dict[int, dict[str, Element]] = {}
    for element in elements:
        if element.name == "mrk" and element.attributes.get("mtype") == "seg":
            around = element.parent
            while around and around.name not in {"seg-source", "target"}:
                around = around.parent
            if around:
                segments.setdefault(around.start, {})[element.attributes.get("mid", "")] = element
    return segments


def rewrite_unit(
    rewriting: Rewriting,
    unit: Element,
    children: Mapping[str, Element],
    parts: Mapping[int, Mapping[str, Element]],
    reading: Reading,
    is_second: bool,
) -> Iterator[tuple[int, int, bool]]:
    """Write a target that is missing, or its segments that are empty.

    Yields where each stands, and whether it keeps white space.
    """
    text = rewriting.text
    source, target = children.get("seg-source") or children.get("source"), children.get("target")
    if source is None or not unit.is_translated or not text[source.first : source.last].strip():
        return
    if target and not reading.everything:
        state = (unit if is_second else target).attributes.get("state", "")
        is_approved = unit.attributes.get("approved") == "yes"
        if is_approved:
            return
        if text[target.first : target.last].strip() and state not in UNTRANSLATED:
            yield from fill_segments(rewriting, parts.get(source.start, {}), parts.get(target.start, {}))
            return
    copy = copy_of(text, source)
    prefix = text[source.start + 1 : source.first].partition("source")[0].removesuffix("seg-")
    tag = opening_tag(text, target) if target else f"<{prefix}target>"
    start, end = (target.start, target.end) if target else (source.end, source.end)
    head = "" if target else space_before(text, source.start)
    if is_second:
        opening = set_attribute(text[unit.start : unit.first], "state", "translated")
        start, head = unit.start, opening + text[unit.first : start] + head
    else:
        tag = set_attribute(tag, "state", "translated")
    place = rewriting.slot(start, end, f"{head}{tag}{copy}</{prefix}target>") + len(head) + len(tag)
    yield place, place + len(copy), source.keeps_space


def fill_segments(
    rewriting: Rewriting, sources: Mapping[str, Element], targets: Mapping[str, Element]
) -> Iterator[tuple[int, int, bool]]:
    """Write the segments of a target that are empty, and whose source is not. Yields as `rewrite_unit`."""
    text = rewriting.text
    for name, target in targets.items():
        source = sources.get(name)
        if source is None or text[target.first : target.last].strip():
            continue
        copy, tag = copy_of(text, source), opening_tag(text, target)
        element = re.split(r"[\s>]", tag[1:], maxsplit=1)[0]
        place = rewriting.slot(target.start, target.end, f"{tag}{copy}</{element}>") + len(tag)
        yield place, place + len(copy), source.keeps_space


def copy_of(text: str, element: Element) -> str:
    """The content of an element, CDATA sections as text."""
    return CDATA.sub(lambda match: escape_markup(match[1]), text[element.first : element.last])


def opening_tag(text: str, element: Element) -> str:
    """The start tag of an element, which may be an empty one."""
    return re.sub(r"(?<!\s)\s*/?>\Z", ">", text[element.start : element.first])


def target_blocks(text: str, start: int, end: int, keeps_space: bool) -> Iterator[Block]:
    """The blocks of a target: its sentences, if it is cut into them."""
    tokens = [
        token._replace(name=token.name.rpartition(":")[2], start=token.start + start, end=token.end + start)
        for token in read_markup(text[start:end], is_html=False)
    ]
    opened: list[bool] = []
    marks: list[Token] = []
    splits: list[bool] = []
    for token in keep_elements(tokens, CODES):
        attributes = attributes_of(text[token.start + 1 : token.end - 1])
        is_segment = token.name == "mrk" and attributes.get("mtype") == "seg"
        if token.kind == "start":
            opened.append(is_segment)
        elif token.kind == "end" and opened:
            is_segment = opened.pop()
        splits.append(is_segment)
        marks.append(to_pair(token, attributes))
    return element_blocks(text, marks, splits, keeps_space)


def to_pair(token: Token, attributes: Mapping[str, str]) -> Token:
    """The code of a start or an end as a tag with the name of its pair."""
    if token.name not in OPENING | CLOSING:
        return token
    name = attributes.get("startref") or attributes.get("rid") or attributes.get("id", "")
    return token._replace(kind="start" if token.name in OPENING else "end", name=f"code {name}")
