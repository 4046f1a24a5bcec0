"""Files of OpenDocument (.odt, .odp, .ods): the paragraphs of content, headers, notes, frames and cells."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dragoman.documents.document import compose
from dragoman.documents.file import Archive, Reading
from dragoman.documents.markup import Token, attributes_of, read_markup
from dragoman.documents.nested import Paragraph, put_back, rewrite
from dragoman.documents.office import (
    OFFICE,
    OfficePart,
    checked_format,
    decode_part,
    element_ends,
    ending_advice,
    plain_characters,
    prefix_of,
    read_office,
)
from dragoman.documents.runs import Item, normal_form, run_blocks, write_runs
from dragoman.documents.strings import is_code
from dragoman.system.errors import DragomanError
from dragoman.text.settings import UNKNOWN_LANGUAGE

TEXT_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
PART = re.compile(r"(?:.*/)?(?:content|styles)\.xml\Z")
CONTAINERS = frozenset(("a", "meta"))
RANGES = frozenset(
    (
        "bookmark-start",
        "bookmark-end",
        "reference-mark-start",
        "reference-mark-end",
        "change-start",
        "change-end",
    )
)
POINTS = frozenset(("note", "bookmark", "reference-mark", "change"))
"""What stands between words, and is none."""
BREAKS = frozenset(("tab", "line-break"))
WITHOUT_TEXT = re.compile(
    r"""\s(?:table:formula\s*=|office:value-type\s*=\s*["'](?!string))|\sstyle:data-style-name\s*="""
)
"""What the tag of a cell says whose text the program computes or formats."""
VALIDATION = re.compile(r"""\stable:content-validation-name\s*=\s*["']([^"'<>]*)""")
LIST = re.compile(
    r"""<table:content-validation\s(?=[^<>]*is-in-list\((?:"|&quot;))(?:[^<>]*\s)?table:name\s*=\s*["']([^"'<>]*)"""
)
"""The name of a list of allowed values, if they are not those of other cells."""
ANY_TAG = re.compile("<[^<>]*>")
MAX_CODE_TOKENS = 8  # of a cell with one word
MAX_SPANS = 16  # in each other: the format of a text is that of all around it
SPACES = re.compile(" {2,}")
UNSEEN = re.compile(
    r"\A(?:officeooo:|loext:|fo:(?:language|country|script)|style:(?:language|country|rfc|script))"
)
"""The properties of a style that only the program sees."""
PROPERTIES = re.compile(rb"<(?:[\w.-]+:)?text-properties\s[^<>]*")
LANGUAGE = re.compile(rb"""(\sfo:language\s*=\s*["'])(?!none|zxx)[\w-]+(["'])""")
COUNTRY = re.compile(rb"""(\sfo:country\s*=\s*["'])(?!none)[\w-]+(["'])""")


@dataclass
class Text:
    """The paragraphs of a member."""

    text: str
    tokens: list[Token]
    prefix: str
    name: str
    """Of the file."""
    styles: Mapping[str, str]
    """For the name of each style of spans that of the first that looks the same; "" if it changes nothing."""
    dropped: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ends = element_ends(self.tokens, self.name)
        self.kept_paragraphs = set(kept_paragraphs(self.text, self.tokens, self.ends))

    def local(self, place: int) -> str:
        """The name of a tag in the namespace of texts; "" for others."""
        name = self.tokens[place].name
        return name[len(self.prefix) :] if name.startswith(self.prefix) else ""

    def tag(self, place: int) -> str:
        """A tag as the document has it."""
        return self.text[self.tokens[place].start : self.tokens[place].end]

    def attribute(self, place: int, name: str) -> str:
        """The value of an attribute of texts; "" if the tag has none."""
        return attributes_of(self.tag(place)[1:-1]).get(f"{self.prefix}{name}".lower(), "")

    def normal_form(self, paragraph: Paragraph, last: int) -> tuple[int, str]:
        """A paragraph in the normal form. The format of a text is the row of the spans around it."""
        place = paragraph.first
        first = self.tokens[place - 1].end
        if place - 1 in self.kept_paragraphs:
            return first, ""
        items: list[Item] = []
        spans: list[list[str]] = [[]]  # around the texts of the paragraph, and of each link that is open
        while place < last:
            place = self.add(paragraph, place, items, spans) + 1
        return first, normal_form(items)

    def add(self, paragraph: Paragraph, place: int, items: list[Item], spans: list[list[str]]) -> int:
        """Add a token. Returns the place of the last one that is read.

        Spans around a link stay around it: presentations show no link whose text is in a span.
        """
        token, name, tag = self.tokens[place], self.local(place), self.tag(place)
        end = self.ends[place]
        around = "".join(spans[-1][:MAX_SPANS])
        if token.kind in {"text", "other"}:
            items.append(Item("text", plain_characters(tag), around))
        elif name == "span":
            if token.kind == "start":
                spans[-1].append(self.span(place))
            elif token.kind == "end":
                spans[-1].pop()
            return place
        elif token.kind == "end":
            spans.pop()
            items.append(Item("close", tag + self.closing("".join(spans[-1][:MAX_SPANS])), name=name))
        elif name in CONTAINERS and token.kind == "start":
            if self.tokens[place + 1].name == "office:event-listeners":  # stands at the start of a link only
                place = self.ends[place + 1]
            tag = paragraph.source(token.start, self.tokens[place].end)
            items.append(Item("open", around + tag, name=name))
            spans.append([])
            return place
        elif name in BREAKS:
            items.append(Item("break", tag))
        elif name == "s":
            count = self.attribute(place, "c")
            spaces = " " * (int(count) if count.isdecimal() and len(count) < 4 else 1)
            items.append(Item("text", spaces, around))
        elif name in RANGES:
            self.add_range(place, name, items)
        elif name != "soft-page-break":
            source = paragraph.source(token.start, self.tokens[end].end)
            is_field = name and name not in POINTS
            items.append(Item("word" if is_field else "alone", source))
        return end

    def span(self, place: int) -> str:
        """The tag of a span; "" if it changes nothing."""
        style = self.attribute(place, "style-name")
        same = self.styles.get(style, style).replace('"', "&quot;")
        tag = f'<{self.prefix}span {self.prefix}style-name="{same}">' if same else ""
        return checked_format(tag)

    def closing(self, spans: str) -> str:
        """The end tags of spans."""
        return f"</{self.prefix}span>" * spans.count("<")

    def add_range(self, place: int, name: str, items: list[Item]) -> None:
        """Add the start or the end of a bookmark, or of what somebody has inserted."""
        bookmark = self.attribute(place, "name") or self.attribute(place, "change-id")
        if bookmark != "_GoBack":  # where somebody has stopped writing
            key = f"{name.rpartition('-')[0]} {bookmark}"
            items.append(Item("start" if name.endswith("start") else "stop", self.tag(place), name=key))


def kept_paragraphs(text: str, tokens: list[Token], ends: list[int]) -> Iterator[int]:
    """The places of the tags in what is no text of the document.

    These are cells whose text is a number, a date, the value of a formula or one of a list of allowed values,
    cells of spreadsheets whose text is a code, and what somebody has deleted.
    """
    lists = {match[1] for match in LIST.finditer(text)}
    is_spreadsheet = "<office:spreadsheet" in text
    cells: list[bool] = []
    for place, token in enumerate(tokens):
        is_cell = token.name.endswith(("table-cell", "office:annotation", ":tracked-changes"))
        if is_cell and token.kind == "start":
            is_deleted = token.name.endswith(":tracked-changes")
            rule = VALIDATION.search(text, token.start, token.end)
            is_single = is_spreadsheet and ends[place] - place <= MAX_CODE_TOKENS
            cells.append(
                is_deleted
                or (is_single and is_code(ANY_TAG.sub("", text[token.end : tokens[ends[place]].start])))
                or (rule is not None and rule[1] in lists)
                or WITHOUT_TEXT.search(text, token.start, token.end) is not None
            )
        elif is_cell and token.kind == "end":
            cells.pop()
        elif cells and cells[-1] and token.kind == "start":
            yield place


def read(content: bytes, reading: Reading) -> Archive:
    """A file of OpenDocument. Raises `DragomanError` if it is damaged or encrypted."""
    members = read_office(content, reading)
    if "content.xml" not in members:
        raise DragomanError(
            f"{reading.name} is a zip file, but not one of OpenDocument{ending_advice(members)}."
        )
    if b"encryption-data" in members.get("META-INF/manifest.xml", b""):
        raise DragomanError(
            f"{reading.name} is protected with a password; save it without, and translate it then."
        )
    names = [name for name in members if PART.match(name)]
    language = re.search(rb"""\sfo:language\s*=\s*["'](?!none)(\w+)""", members.get("styles.xml", b""))
    named = {name: partial(name_language, reading.target) for name in names}
    return Archive(
        content,
        {name: read_part(members[name], reading) for name in names},
        language[1].decode() if language else "",
        named if reading.target != UNKNOWN_LANGUAGE else {},
    )


def read_part(content: bytes, reading: Reading) -> OfficePart:
    """A member with paragraphs. Raises as `read`."""
    text, encoding = decode_part(content, reading.name)
    tokens = read_markup(text, is_html=False)
    prefix = prefix_of(text, TEXT_NAMESPACE)
    paragraphs = Text(text, tokens, prefix, reading.name, span_styles(text, tokens))
    rewritten, slots = rewrite(text, tokens, {f"{prefix}p", f"{prefix}h"}, paragraphs.normal_form)
    document = compose(rewritten, run_blocks(rewritten), reading.source, reading.split, OFFICE)
    return OfficePart(replace(document, slots=slots, encoding=encoding), partial(finish, prefix))


def span_styles(text: str, tokens: list[Token]) -> dict[str, str]:
    """For the name of each automatic style of spans the first that looks the same; "" if it changes nothing.

    LibreOffice writes a style, and a span with it, for each time that somebody has worked at a paragraph.
    """
    looks: dict[tuple[str, ...], str] = {("",): ""}
    result: dict[str, str] = {}
    style: dict[str, str] | None = None
    properties: list[str] = []
    for token in tokens:
        if token.name == "office:automatic-styles" and token.kind == "end":
            break
        if token.kind not in {"start", "empty", "end"} or not token.name.startswith("style:"):
            continue
        attributes = attributes_of(text[token.start + 1 + len(token.name) : token.end - 1])
        if token.name == "style:style" and token.kind == "start":
            style = attributes if attributes.get("style:family") == "text" else None
            properties = []
        elif token.name == "style:style" and style is not None:
            name = style.get("style:name", "")
            result[name] = looks.setdefault(
                (style.get("style:parent-style-name", ""), *sorted(properties)), name
            )
            style = None
        elif token.kind != "end":
            properties += [
                f"{name}={value}" for name, value in attributes.items() if not UNSEEN.match(name)
            ] or [token.name] * (token.name != "style:text-properties")
    return result


def finish(prefix: str, text: str) -> str:
    """The member as OpenDocument has it."""

    def write_run(spans: str, text: str) -> str:
        return spans + SPACES.sub(write_spaces, text) + f"</{prefix}span>" * spans.count("<")

    def write_spaces(match: re.Match[str]) -> str:
        return f' <{prefix}s {prefix}c="{len(match[0]) - 1}"/>'

    return put_back(write_runs(text, write_run))


def name_language(target: str, content: bytes) -> bytes:
    """The styles with another language."""
    language, _, country = target.partition("-")
    changes = (LANGUAGE, language), (COUNTRY, country.upper() if len(country) == 2 else "none")

    def change(match: re.Match[bytes]) -> bytes:
        tag = match[0]
        for pattern, value in changes:
            tag = pattern.sub(rb"\g<1>" + value.encode() + rb"\2", tag)
        return tag

    return PROPERTIES.sub(change, content)
