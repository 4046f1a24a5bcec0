"""HTML and XML: the blocks of text between their tags, as `document.py` cuts them into sentences.

The source is cut by positions, and a document is never built from a tree, so that everything outside of
sentences keeps its bytes. `html.parser` is not used: it stops at some malformed declarations, and in older
versions of Python it takes quadratic time for unclosed comments and tags. `read_markup` follows the
tokenization of the HTML standard (13.2.5), except that `<` stands in a tag only within quotes. It takes
linear time and has no errors: what is no tag is text.
"""

import codecs
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape, unescape
from html.entities import html5
from itertools import groupby
from typing import Literal, NamedTuple

from dragoman.documents.document import Block, Document, Piece, Syntax, compose
from dragoman.documents.file import EncodingError, Reading, decode_text
from dragoman.text.settings import UNKNOWN_LANGUAGE
from dragoman.translation.sentence_ends import CONTROL

NAME = re.compile(r"</?([^\W\d_][^\s/<>]*|[_:][^\s/<>]*)")
ATTRIBUTE = re.compile(r"""([^\s=/<>"']++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s>]++))?""")
DOCTYPE = re.compile(r"<!DOCTYPE(?=[\s\[])", re.IGNORECASE)
IN_DOCTYPE = re.compile(
    r""""[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)|[\[\]>]""", re.DOTALL
)
"""What is quoted in an XML document type, with comments and processing instructions, and the brackets."""
COMMENT_END = re.compile("--!?>")
IN_TAG = re.compile(r"[^<>=]*+(?:=\s*+)?")
"""The part of a tag before a quotation mark, `<`, `>` or the next attribute."""
TEXT = re.compile(
    r"(?P<entity>&(?:\#[0-9]{1,8}|\#[xX][0-9A-Fa-f]{1,8}|[A-Za-z][A-Za-z0-9._-]{0,40});?)"
    rf"|(?P<space>[ \t\n\r\f]+)|(?P<words>[^&\s{CONTROL}]+(?: [^&\s{CONTROL}]+)*)|.",
    re.DOTALL,
)
ENTITY = re.compile(r"<!ENTITY\s+([^\s%]\S*)")
COMMENT = re.compile("<!--.*?-->", re.DOTALL)
HTML_ENCODING = re.compile(r"""<meta[^<>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
ROOT_LANGUAGE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*["']?\s*)[\w-]+""", re.IGNORECASE)
XML_ENCODING = re.compile(r"""^\ufeff?<\?xml[^<>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
A_CONTROL = re.compile(f"[{CONTROL}]")
STANDS_FOR = "Word"  # what an element that is kept looks like where sentences are cut

BLOCK_ELEMENTS = frozenset(
    (
        "address", "article", "aside", "audio", "base", "basefont", "bgsound", "blockquote", "body",
        "br", "button", "canvas", "caption", "center", "col", "colgroup", "dd", "details", "dialog", "dir",
        "div", "dl", "dt", "embed", "fieldset", "figcaption", "figure", "footer", "form", "frame",
        "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html",
        "iframe", "label", "legend", "li", "main", "menu", "meter", "nav", "noembed",
        "noframes", "noscript", "object", "ol", "optgroup", "option", "output", "p", "plaintext",
        "pre", "progress", "search", "section", "select", "slot", "summary", "table", "tbody", "td",
        "textarea", "tfoot", "th", "thead", "title", "tr", "ul", "video", "xmp",
    )
)  # fmt: skip
"""HTML elements that end a sentence. All others, also unknown ones, stand within sentences."""
VOID = frozenset(
    (
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param",
        "source", "track", "wbr",
    )
)  # fmt: skip
"""HTML elements without an end tag."""
RAW = frozenset(("script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext"))
"""HTML elements that contain characters, and no tags."""
TEXT_ONLY = frozenset(("title", "textarea"))
"""HTML elements that contain text, and no tags."""
KEPT_ELEMENTS = frozenset((*RAW, "code", "pre", "kbd", "samp", "var", "svg", "math"))
"""HTML elements that are never translated."""
ANNOTATIONS = frozenset(("rt", "rp", "rtc"))
"""What stands in `ruby` and says how a word is pronounced."""
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def escape_markup(text: str) -> str:
    """A text with &, < and > as entities. XML has no control characters: they become spaces."""
    return escape(FORBIDDEN.sub(" ", text), quote=False)


MARKUP = Syntax(escape_markup, keeps_tags=True)
ATTRIBUTE_VALUE = Syntax(lambda text: escape(FORBIDDEN.sub(" ", text)), keeps_tags=True)
READ_ATTRIBUTES = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description"))
"""Attributes of HTML that people read."""
DESCRIPTIONS = frozenset(
    ("description", "og:title", "og:description", "twitter:title", "twitter:description")
)
"""The names of `meta` elements whose content people read."""


class Token(NamedTuple):
    """A part of the source, `start` to `end`."""

    kind: Literal["text", "start", "end", "empty", "other"]
    """Text, a start tag, an end tag, an element in one tag, or a comment or declaration."""
    name: str
    """The name of a tag, for HTML in lower case."""
    start: int
    end: int
    is_kept: bool = False
    """The tag asks not to translate the element: translate="no" or class="notranslate"."""


def html(
    text: str,
    language: str,
    *,
    split: bool = True,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    non_splitting_tags: Collection[str] = (),
) -> Document:
    """The sentences of an HTML document or fragment in a language (ISO 639, "und" if unknown).

    `BLOCK_ELEMENTS` and `splitting_tags` end a sentence, but not `non_splitting_tags`; the tags of all others
    stand in sentences as marks. `KEPT_ELEMENTS`, `ignore_tags` and elements with translate="no" or
    class="notranslate" are not translated. Names of tags may have capitals. Attributes that people read are
    translated in tags that do not stand within a sentence.
    """
    ignored, splitting, non_splitting = (
        {name.lower() for name in names} for names in (ignore_tags, splitting_tags, non_splitting_tags)
    )
    tokens = join_annotations(text, keep_elements(read_markup(text, is_html=True), KEPT_ELEMENTS | ignored))
    ending = (BLOCK_ELEMENTS | splitting) - non_splitting
    splits = [token.name in ending for token in tokens]
    document = compose(text, to_blocks(text, tokens, splits, None), language, split, MARKUP)
    values = compose(text, attribute_blocks(text, tokens), language, split, ATTRIBUTE_VALUE)
    ends = [0, *(segment.end for segment in document.segments)]
    starts = [segment.start for segment in document.segments]
    outside = [value for value in values.segments if ends[bisect_right(starts, value.start)] <= value.start]
    segments = sorted((*document.segments, *outside), key=lambda segment: segment.start)
    return replace(document, segments=tuple(segments))


def xml(
    text: str,
    language: str,
    *,
    split: bool = True,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    non_splitting_tags: Collection[str] = (),
) -> Document:
    """The sentences of an XML document or fragment, with the settings of DeepL's tag_handling=xml.

    Elements named in `ignore_tags` are never translated. An element is within a sentence if there is text
    beside it in its parent, or if it is named in `non_splitting_tags`; all others, and those named in
    `splitting_tags`, end a sentence.
    """
    tokens = keep_elements(read_markup(text, is_html=False), ignore_tags)
    entities = {
        name
        for token in tokens
        if token.kind == "other"
        for name in ENTITY.findall(text, token.start, token.end)
    }
    splits = [
        token.kind in {"start", "end", "empty"}
        and token.name not in non_splitting_tags
        and (is_alone or token.name in splitting_tags)
        for token, is_alone in zip(tokens, without_text_beside(text, tokens), strict=True)
    ]
    return compose(text, to_blocks(text, tokens, splits, entities), language, split, MARKUP)


@dataclass(frozen=True)
class Page(Document):
    """A page that names the language of its translation, if it names one at all."""

    target: str = ""

    def write(self, translations: Sequence[str]) -> bytes:
        """The page with the translations. Raises as `join`."""
        written = self.join(translations)
        root = root_of(self.text, is_html=True)
        is_named = written != self.text and self.language and self.target != UNKNOWN_LANGUAGE
        if is_named and root and written.startswith(self.text[: root.end]):
            tag = ROOT_LANGUAGE.sub(rf"\g<1>{self.target}", self.text[root.start : root.end])
            written = self.text[: root.start] + tag + written[root.end :]
        return written.encode(self.encoding, "surrogateescape")


def read_html(content: bytes, reading: Reading) -> Document:
    """An HTML file. Raises `DragomanError` if it declares another encoding than it has."""
    patterns = XML_ENCODING, HTML_ENCODING
    text, encoding = decode_markup(content, reading.name, patterns, reading.encoding is None)
    document = html(text, reading.source, split=reading.split)
    language = language_of_root(text, is_html=True)
    return Page(document.text, document.segments, (), encoding, language, reading.target)


def read_xml(content: bytes, reading: Reading) -> Document:
    """An XML file. Raises as `read_html`."""
    text, encoding = decode_markup(content, reading.name, (XML_ENCODING,), reading.encoding is None)
    document = xml(text, reading.source, split=reading.split)
    return replace(document, encoding=encoding, language=language_of_root(text, is_html=False))


def decode_markup(
    content: bytes, name: str, patterns: Sequence[re.Pattern[str]], is_declared: bool = True
) -> tuple[str, str]:
    """The text of a document and its encoding. `is_declared`: the document may say which one it is.

    Raises `DragomanError` as `decode_text`, and for a declared encoding that is another one.
    """
    text, encoding = decode_text(content, name)
    if not is_declared:
        return text, encoding
    head = COMMENT.sub("", text[:1024])
    declared = next((match[1].lower() for pattern in patterns if (match := pattern.search(head))), encoding)
    try:
        is_same = encoding.startswith(codecs.lookup(declared).name)
    except LookupError:
        is_same = False
    if not is_same:
        raise EncodingError(
            f"{name} says that its encoding is {declared}, and it is read as {encoding}; convert it to "
            "UTF-8, and change the declaration to UTF-8."
        )
    return text, encoding


def root_of(text: str, is_html: bool) -> Token | None:
    """The tag of the root element."""
    return next((token for token in read_markup(text, is_html) if token.kind == "start"), None)


def language_of_root(text: str, is_html: bool) -> str:
    """The language that the root element names: `lang` of HTML's, `xml:lang` of XML's; "" if it has none."""
    root = root_of(text, is_html)
    if root is None or (is_html and root.name != "html"):
        return ""
    attribute = "lang" if is_html else "xml:lang"
    return attributes_of(text[root.start + 1 + len(root.name) : root.end - 1]).get(attribute, "").strip()


# ---- source → tokens


def read_markup(text: str, is_html: bool) -> list[Token]:
    """The tokens of a source. Together they are the source."""
    tokens: list[Token] = []
    failed: set[int] = set()
    text_start = position = 0
    has_doctype = False
    while (position := text.find("<", position)) >= 0:
        token = None
        if not has_doctype and (name := DOCTYPE.match(text, position)):
            has_doctype, token = True, document_type(text, name)
        token = token or read_token(text, position, is_html, failed)
        if token is None:
            position += 1
            continue
        if text_start < position:
            tokens.append(Token("text", "", text_start, position))
        tokens.append(token)
        text_start = position = token.end
        if is_html and token.kind == "start" and token.name in RAW | TEXT_ONLY:
            closing = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE).search(text, position)
            position = closing.start() if closing else len(text)
    if text_start < len(text):
        tokens.append(Token("text", "", text_start, len(text)))
    return tokens


def read_token(text: str, start: int, is_html: bool, failed: set[int]) -> Token | None:
    """The token that begins with the `<` at `start`; None if it is text. Unclosed comments end with the text.

    `failed` collects the quotation marks from which no end of a tag can be reached.
    """
    opening = text[start : start + 2]
    if opening[1:2] in {"!", "?"}:
        return Token("other", "", start, declaration_end(text, start, is_html))
    name = NAME.match(text, start)
    if is_html and not name and opening == "</" and start + 2 < len(text):
        return Token("other", "", start, after(text, ">", start))
    end = tag_end(text, name.end(), failed) if name else -1
    if name is None or end < 0:
        return None
    key = name[1].lower() if is_html else name[1]
    if opening[1] == "/":
        return Token("end", key, start, end)
    attributes = text[name.end() : end]
    is_empty = attributes.endswith("/>") and not (is_html and ends_in_value(attributes))
    is_empty = is_empty or (is_html and key in VOID)
    return Token("empty" if is_empty else "start", key, start, end, is_kept(attributes))


def ends_in_value(attributes: str) -> bool:
    """Whether the attributes of a tag end in a value without quotes, as in <a href=x/>.

    Its slash does not end the element.
    """
    last = 1 + max(map(attributes.rfind, " \t\n\r\f\"'"))
    return "=" in attributes[last:] or attributes[:last].rstrip().endswith("=")


def declaration_end(text: str, start: int, is_html: bool) -> int:
    """The position after a comment, CDATA section or processing instruction, or a document type of HTML."""
    if text.startswith("<!--", start):
        is_abrupt = text.startswith(("<!-->", "<!--->"), start)
        match = COMMENT_END.search(text, start + 4) if is_html and not is_abrupt else None
        return match.end() if match else after(text, "-->", start + 2)
    if text.startswith("<![CDATA[", start):
        return after(text, "]]>", start)
    if text.startswith("<?", start):
        return after(text, ">" if is_html else "?>", start)
    return after(text, ">", start)


def document_type(text: str, name: re.Match[str]) -> Token | None:
    """The XML document type that begins with `name`, with its declarations; None if it does not end."""
    is_inside = False  # its brackets
    for match in IN_DOCTYPE.finditer(text, name.end()):
        if match[0] == ">" and not is_inside:
            return Token("other", "", name.start(), match.end())
        is_inside = match[0] == "[" or (is_inside and match[0] != "]")
    return None


def after(text: str, closing: str, start: int) -> int:
    """The position after the next `closing`, or the end of the text."""
    index = text.find(closing, start)
    return len(text) if index < 0 else index + len(closing)


def tag_end(text: str, position: int, failed: set[int]) -> int:
    """The position after the `>` of a tag whose name ends at `position`; -1 if it has none.

    A quotation mark opens a value only after `=`. One that is in `failed` is not followed again, so that all
    calls for a text take linear time.
    """
    opened: list[int] = []
    while match := IN_TAG.match(text, position):
        position = match.end()
        mark = text[position : position + 1]
        if mark == ">":
            return position + 1
        if mark in {"", "<"}:
            break
        if mark in {'"', "'"} and match[0].rstrip().endswith("="):
            if position in failed:
                break
            opened.append(position)
            position = text.find(mark, position + 1)
            if position < 0:
                break
            position += 1
    failed.update(opened)
    return -1


def is_kept(attributes: str) -> bool:
    """Whether the attributes of a tag ask not to translate its element."""
    if "translate" not in attributes.lower():
        return False
    values = attributes_of(attributes)
    return (
        values.get("translate", "").lower() == "no"
        or "notranslate" in values.get("class", "").lower().split()
    )


def attributes_of(attributes: str) -> dict[str, str]:
    """The values of a tag's attributes, by their names in lower case."""
    return {name.lower(): value.strip("\"'") for name, value in ATTRIBUTE.findall(attributes)}


def join_annotations(text: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens with the annotations of each `ruby` as a part of its end tag, so that they stay in it.

    A `ruby` with text behind an annotation is one empty element, which is not translated.
    """
    result: list[Token] = []
    first = -1
    for token in tokens:
        result.append(token)
        if token.name != "ruby":
            continue
        inside = result[first + 1 : -1] if first >= 0 and token.kind == "end" else []
        place = next((number for number, part in enumerate(inside) if part.name in ANNOTATIONS), -1)
        if place >= 0 and is_annotation(text, inside[place:]):
            result[first + 1 + place :] = [token._replace(start=inside[place].start)]
        elif place >= 0:
            result[first:] = [result[first]._replace(kind="empty", end=token.end, is_kept=True)]
        first = len(result) - 1 if token.kind == "start" else -1
    return result


def is_annotation(text: str, tokens: Sequence[Token]) -> bool:
    """Whether no text stands beside the annotations in a part of `ruby`."""
    depth = 0
    for token in tokens:
        if token.name in ANNOTATIONS:
            depth += (token.kind == "start") - (token.kind == "end")
        elif depth <= 0 and (token.kind != "text" or not text[token.start : token.end].isspace()):
            return False
    return True


def keep_elements(tokens: Sequence[Token], names: Collection[str]) -> list[Token]:
    """The tokens, each element that is not to be translated as one empty element.

    It ends with its end tag, or without one before the end tag of an element that contains it, else with the
    text.
    """
    result: list[Token] = []
    opened: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    first: Token | None = None
    for token in tokens:
        name = token.name
        if first is None:
            opened[name] += (token.kind == "start") - (token.kind == "end" and opened[name] > 0)
            if token.kind == "start" and (name in names or token.is_kept):
                first, inside = token, Counter({name: 1})
                opened[name] -= 1
            elif token.kind == "empty" and (name in names or token.is_kept):
                result.append(token._replace(is_kept=True))
            else:
                result.append(token)
        elif token.kind == "start":
            inside[name] += 1
        elif token.kind == "end" and inside[name]:
            inside[name] -= 1
            if name == first.name and not inside[name]:
                result.append(first._replace(kind="empty", end=token.end, is_kept=True))
                first = None
        elif token.kind == "end" and opened[name]:
            opened[name] -= 1
            result += (first._replace(kind="empty", end=token.start, is_kept=True), token)
            first = None
    if first is not None:
        result.append(first._replace(kind="empty", end=tokens[-1].end, is_kept=True))
    return result


def without_text_beside(text: str, tokens: Sequence[Token]) -> list[bool]:
    """For each tag whether its element's parent contains no text of its own but white space."""
    parents = [0] * len(tokens)
    has_text = [False]  # of each element; the first is the document
    opened = [0]
    names: Counter[str] = Counter()
    open_names = [""]
    for place, token in enumerate(tokens):
        parents[place] = opened[-1]
        if token.kind == "text" and not text[token.start : token.end].isspace():
            has_text[opened[-1]] = True
        elif token.kind == "start":
            opened.append(len(has_text))
            open_names.append(token.name)
            names[token.name] += 1
            has_text.append(False)
        elif token.kind == "end" and names[token.name]:
            while open_names[-1] != token.name:
                names[open_names.pop()] -= 1
                opened.pop()
            names[open_names.pop()] -= 1
            opened.pop()
            parents[place] = opened[-1]
    return [not has_text[parent] for parent in parents]


# ---- tokens → blocks


def attribute_blocks(text: str, tokens: Sequence[Token]) -> Iterator[Block]:
    """The values, in quotation marks, of the attributes that people read."""
    for token in tokens:
        if token.kind not in {"start", "empty"} or token.is_kept:
            continue
        place = token.start + 1 + len(token.name)
        matches = list(ATTRIBUTE.finditer(text, place, token.end - 1))
        values = {match[1].lower(): (match[2] or "").strip("\"'").lower() for match in matches}
        is_description = token.name == "meta" and not DESCRIPTIONS.isdisjoint(
            (values.get("name"), values.get("property"))
        )
        for match in matches:
            name, is_quoted = match[1].lower(), (match[2] or "")[:1] in {'"', "'"}
            if is_quoted and (name in READ_ATTRIBUTES or (name == "content" and is_description)):
                pieces = list(text_pieces(text, match.start(2) + 1, match.end(2) - 1, None))
                for is_text, block in groupby(pieces, key=lambda piece: piece is not None):
                    if is_text:
                        yield [piece for piece in block if piece is not None]


def to_blocks(
    text: str, tokens: Sequence[Token], splits: Sequence[bool], entities: Collection[str] | None
) -> Iterator[Block]:
    """The blocks between the tags that end a sentence.

    `entities` are the names of the entities that an XML document defines; None stands for HTML.
    """
    block: Block = []
    for token, is_split in zip(tokens, splits, strict=True):
        if is_split:
            yield block
            block = []
        elif token.kind == "text":
            for piece in text_pieces(text, token.start, token.end, entities):
                if piece is None:
                    yield block
                    block = []
                else:
                    block.append(piece)
        elif token.kind in {"start", "end"}:
            block.append(
                Piece("open" if token.kind == "start" else "close", token.name, token.start, token.end)
            )
        else:
            read = STANDS_FOR if token.is_kept else " " if token.name in VOID - {"wbr"} else ""
            block.append(Piece("alone", read, token.start, token.end))
    yield block


def text_pieces(text: str, start: int, end: int, entities: Collection[str] | None) -> Iterator[Piece | None]:
    """The pieces of a text: entities as the characters that they stand for, white space as one space.

    None stands for control characters, which end a block.
    """
    for match in TEXT.finditer(text, start, end):
        source = match[0]
        is_known = (
            match.lastgroup == "entity"
            and (
                entities is None  # HTML also reads &copyright; as &copy; and letters
                or (source[1:].rstrip(";") not in entities and (source[1] == "#" or source[1:] in html5))
            )
        )
        decoded = unescape(source) if is_known else source
        if match.lastgroup == "space" or decoded in {"\t", "\n", "\r", "\f"}:
            yield Piece("text", " ", match.start(), match.end())
        elif decoded == source and match.lastgroup == "entity" and source.endswith(";"):
            yield Piece("alone", STANDS_FOR, match.start(), match.end())  # an entity of the document's own
        elif A_CONTROL.search(decoded):
            yield None
        else:
            yield Piece("text", decoded, match.start(), match.end())
