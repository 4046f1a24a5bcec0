"""The paragraphs of Word: runs, and what stands between them."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dragoman.documents.markup import Token
from dragoman.documents.nested import Paragraph
from dragoman.documents.office import checked_format, element_ends, plain_characters
from dragoman.documents.runs import Item, normal_form

CONTAINERS = frozenset(("hyperlink", "smartTag", "customXml", "dir", "bdo", "ins", "moveTo"))
FIRST = frozenset(("smartTagPr", "customXmlPr", "fldData"))
"""What may stand at the start of a container, and nowhere else."""
RANGES = {
    "bookmarkStart": "bookmark",
    "bookmarkEnd": "bookmark",
    "commentRangeStart": "comment",
    "commentRangeEnd": "comment",
    "permStart": "permission",
    "permEnd": "permission",
    "moveFromRangeStart": "move from",
    "moveFromRangeEnd": "move from",
    "moveToRangeStart": "move to",
    "moveToRangeEnd": "move to",
}
DROPPED = frozenset(("proofErr", "lastRenderedPageBreak", "softHyphen"))
"""What the program writes again itself, or what belongs to a word that is translated."""
BREAKS = frozenset(("tab", "br", "cr", "ptab"))
FIELDS = frozenset(
    ("HYPERLINK", "REF", "TOC", "INDEX", "TOA", "IF", "FORMTEXT", "STYLEREF", "TITLE", "SUBJECT", "QUOTE")
)
"""The fields whose result is text to translate; that of all others is kept."""
ID = re.compile(r"""\s[\w.-]*:?id\s*=\s*["']([^"']*)""")
NAME = re.compile(r"""\s[\w.-]*:?name\s*=\s*["']([^"']*)""")
INSTRUCTION = re.compile(r"""\s[\w.-]*:?instr\s*=\s*["']\s*(\w+)""")
FIELD_KIND = re.compile(r"""fldCharType\s*=\s*["'](\w+)""")
OFF = re.compile(r"""\s[\w.-]*:?val\s*=\s*["'](?:0|false|off)["']""")


@dataclass
class Field:
    """A field that is kept, at least up to now: its code is not read to its end."""

    depth: int = 0
    """Of the fields in it."""
    code: list[str] = field(default_factory=list)
    """Its parts."""
    is_code: bool = True
    xml: list[str] = field(default_factory=list)


@dataclass
class Word:
    """The paragraphs of a member. A field may go on from one to the next."""

    text: str
    tokens: list[Token]
    prefix: str
    name: str
    """Of the file."""
    languages: Counter[str] = field(default_factory=Counter)
    """The number of characters in each language; "" is that of the style."""
    kept_field: Field | None = None
    dropped: set[str] = field(default_factory=set)
    """The names of ranges without a meaning."""

    def __post_init__(self) -> None:
        self.ends = element_ends(self.tokens, self.name)
        properties = re.escape(self.prefix)
        self.hint = re.compile(rf"""\s{properties}hint\s*=\s*["']\w*["']""")
        self.unwritten = re.compile(rf"<{properties}(?:(?:lang|noProof)(?:\s[^<>]*)?|rFonts\s*)/>")
        self.hidden = re.compile(rf"<{properties}vanish((?:\s[^<>]*)?)/>")
        self.language = re.compile(rf"""<{properties}lang\s[^<>]*?{properties}val\s*=\s*["']([\w-]+)""")

    def local(self, place: int) -> str:
        """The name of a tag in Word's namespace; "" for others."""
        name = self.tokens[place].name
        return name[len(self.prefix) :] if name.startswith(self.prefix) else ""

    def children(self, place: int) -> Iterator[int]:
        """The places of the elements in the element whose tag is at `place`."""
        last = self.ends[place]
        child = place + 1
        while child < last:
            if self.tokens[child].kind in {"start", "empty"}:
                yield child
            child = self.ends[child] + 1

    def whole(self, paragraph: Paragraph, place: int) -> str:
        """An element as the document has it."""
        return paragraph.source(self.tokens[place].start, self.tokens[self.ends[place]].end)

    def normal_form(self, paragraph: Paragraph, last: int) -> tuple[int, str]:
        """What follows the properties of a paragraph, in the normal form."""
        place = paragraph.first
        first = self.tokens[place - 1].end
        items: list[Item] = []
        while place < last:
            token = self.tokens[place]
            if token.kind in {"start", "empty"} and self.local(place) == "pPr":
                place = self.ends[place]
                first = self.tokens[place].end
            elif token.kind in {"start", "empty", "end"}:
                place = self.add_element(paragraph, place, items)
            place += 1
        self.cut_field(items)
        return first, normal_form(items)

    def add_element(self, paragraph: Paragraph, place: int, items: list[Item]) -> int:
        """Add what stands in a paragraph beside its runs. Returns the place of the last tag that is read."""
        token, name, end = self.tokens[place], self.local(place), self.ends[place]
        tag = self.text[token.start : token.end]
        if token.kind == "end":
            self.cut_field(items)
        elif self.kept_field and name != "r":
            self.kept_field.xml.append(self.whole(paragraph, place))
            return end
        is_container = name in CONTAINERS or (
            name == "fldSimple"
            and (code := INSTRUCTION.search(tag)) is not None
            and code[1].upper() in FIELDS
        )
        if token.kind == "end":
            closing = end
            if name == "sdtContent":
                while self.local(closing) != "sdt" or self.tokens[closing].kind != "end":
                    closing += 1
            items.append(Item("close", self.text[token.start : self.tokens[closing].end], name=name))
            return closing
        if token.kind == "start" and is_container:
            if self.local(place + 1) in FIRST:
                place = self.ends[place + 1]
            items.append(Item("open", paragraph.source(token.start, self.tokens[place].end), name=name))
            return place
        if name == "r":
            self.add_run(paragraph, place, items)
        elif name == "sdt" and (content := self.sdt_content(place)):
            opening = paragraph.source(token.start, self.tokens[content].end)
            items.append(Item("open", opening, name="sdtContent"))
            return content
        elif name in RANGES:
            self.add_range(name, tag, items)
        elif name not in DROPPED:
            is_word = token.name.endswith(("oMath", "fldSimple"))
            items.append(Item("word" if is_word else "alone", self.whole(paragraph, place)))
        return end

    def cut_field(self, items: list[Item]) -> None:
        """Add what there is of a field that is kept, where the element ends that it has begun in."""
        if self.kept_field and self.kept_field.xml:
            items.append(Item("break", "".join(self.kept_field.xml)))
            self.kept_field.xml.clear()

    def sdt_content(self, place: int) -> int:
        """The place of the tag that begins the content of a control; 0 if it has none."""
        for child in self.children(place):
            if self.local(child) == "sdtContent" and self.tokens[child].kind == "start":
                return child
        return 0

    def add_range(self, name: str, tag: str, items: list[Item]) -> None:
        """Add the start or the end of a bookmark, or of what a comment is about."""
        identity = ID.search(tag)
        key = f"{RANGES[name]} {identity[1] if identity else ''}"
        if (bookmark := NAME.search(tag)) and bookmark[1] == "_GoBack":  # where somebody has stopped writing
            self.dropped.add(key)
        if key in self.dropped:
            return
        items.append(Item("start" if name.endswith("Start") else "stop", tag, name=key))

    def add_run(self, paragraph: Paragraph, place: int, items: list[Item]) -> None:
        """Add what a run contains."""
        properties = ""
        is_hidden = False
        for child in self.children(place):
            name = self.local(child)
            if name == "rPr":
                properties = checked_format(self.whole(paragraph, child))
                vanish = self.hidden.search(properties)
                is_hidden = vanish is not None and not OFF.search(vanish[1])
                continue
            xml = f"<{self.prefix}r>{properties}{self.whole(paragraph, child)}</{self.prefix}r>"
            if name in {"fldChar", "instrText"} or self.kept_field:
                self.add_field(child, xml, items)
            elif is_hidden:
                items.append(Item("alone", xml))
            elif name == "t":
                self.add_text(child, properties, items)
            elif name == "noBreakHyphen":
                items.append(Item("like", xml, "\u2011"))
            elif name == "ruby":
                items.append(Item("like", xml, self.ruby_base(child)))
            elif name not in DROPPED:
                items.append(Item("break" if name in BREAKS else "alone", xml))

    def add_text(self, place: int, properties: str, items: list[Item]) -> None:
        """Add the text of a run with these properties."""
        tag, end = self.tokens[place], self.tokens[self.ends[place]]
        text = self.text[tag.end : end.start] if tag.kind == "start" else ""
        text = plain_characters(text)
        if "preserve" not in self.text[tag.start : tag.end]:
            text = text.strip(" \t\r\n")
        if text:
            language = self.language.search(properties)
            self.languages[language[1] if language else ""] += len(text)
            text_format = self.unwritten.sub("", self.hint.sub("", properties))
            is_empty = text_format == f"<{self.prefix}rPr></{self.prefix}rPr>"
            items.append(Item("text", text, "" if is_empty else text_format))

    def ruby_base(self, place: int) -> str:
        """The text that a ruby annotation is about."""
        base = next((child for child in self.children(place) if self.local(child) == "rubyBase"), place)
        first, last = self.tokens[base].end, self.tokens[self.ends[base]].start
        text = self.text[first:last] if base != place else ""
        return re.sub(r"<[^<>]*>|&[^&;]*;|[\x00-\x1f]", "", text)

    def add_field(self, place: int, xml: str, items: list[Item]) -> None:
        """Add a part of a field: of its code, its result, or a tag between them, as a run of its own."""
        tag = self.text[self.tokens[place].start : self.tokens[place].end]
        name = self.local(place)
        match = FIELD_KIND.search(tag) if name == "fldChar" else None
        kind = match[1] if match else ""
        if self.kept_field is None:
            if kind == "begin":
                self.kept_field = Field(xml=[xml])
            else:
                items.append(Item("close" if kind == "end" else "alone", xml, name="field"))
            return
        self.kept_field.xml.append(xml)
        if kind == "begin":
            self.kept_field.depth += 1
        elif kind == "end" and self.kept_field.depth:
            self.kept_field.depth -= 1
        elif kind == "end":
            items.append(Item("alone" if self.kept_field.is_code else "word", "".join(self.kept_field.xml)))
            self.kept_field = None
        elif kind == "separate" and not self.kept_field.depth:
            code = "".join(self.kept_field.code).split()
            self.kept_field.is_code = False
            if code and code[0].upper() in FIELDS:
                items.append(Item("open", "".join(self.kept_field.xml), name="field"))
                self.kept_field = None
        elif name == "instrText" and not self.kept_field.depth and self.kept_field.is_code:
            end = self.tokens[self.ends[place]].start
            self.kept_field.code.append(self.text[self.tokens[place].end : end])
