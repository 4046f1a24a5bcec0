"""LaTeX: its text, and the arguments of the commands that are known to take text. The others are kept."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.documents.document import MARK, Block, Document, Piece, Segment, Syntax, compose
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.markup import STANDS_FOR
from dragoman.documents.tex_tokens import Token, partners, read_tokens
from dragoman.system.errors import DragomanError
from dragoman.translation.sentence_ends import CONTROL

INLINE = {
    **dict.fromkeys(
        (
            "emph", "textbf", "textit", "textsc", "textsf", "textrm", "textsl", "textup", "textmd",
            "textnormal", "underline", "uline", "enquote", "footnote", "mbox", "textsuperscript", "alert",
            "text",
        ),
        1,
    ),
    **dict.fromkeys(("href", "textcolor", "colorbox", "hyperref", "foreignlanguage"), 2),
}  # fmt: skip
"""Commands whose last argument is text in a sentence, and the number of their arguments."""
BLOCKS = frozenset(
    (
        "part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph", "title",
        "subtitle", "caption", "frametitle", "framesubtitle", "thanks", "dedication",
    )
)  # fmt: skip
"""Commands whose argument is a text of its own."""
PREAMBLE = frozenset(("title", "subtitle"))
ENVIRONMENTS = frozenset(
    (
        "document", "abstract", "itemize", "enumerate", "description", "quote", "quotation", "verse",
        "center", "flushleft", "flushright", "figure", "table", "tabular", "tabularx", "longtable", "frame",
        "theorem", "lemma", "proof", "definition", "corollary", "remark", "example", "proposition",
        "minipage",
        "block", "alertblock", "exampleblock", "columns", "column", "titlepage", "appendix", "multicols",
        "acknowledgements", "acknowledgments", "wrapfigure", "sidewaystable", "small", "footnotesize",
    )
)  # fmt: skip
"""Environments in which there is text."""
TITLED = frozenset(("frame", "block", "alertblock", "exampleblock"))
"""Environments whose argument is text."""
BREAKS = frozenset(
    ("par", "newline", "newpage", "clearpage", "linebreak", "hline", "item", "maketitle", "bigskip")
)
DEFINITIONS = frozenset(
    ("def", "edef", "gdef", "xdef", "let", "newcommand", "renewcommand", "providecommand")
)
NEW_THEOREM = re.compile(r"\\newtheorem\*?\{([A-Za-z]+)\}")
CATCODE = re.compile(r"\\(?:catcode|lccode|DeclareActiveChar|MakeShortVerb)\b")
OPTIONAL = re.compile(r"[ \t]*\[[^\[\]{}\\]*\]")
ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "c": "\u0327", "k": "\u0328",
}  # fmt: skip
LETTERS = {
    "\\ss": "ß", "\\ae": "æ", "\\AE": "Æ", "\\o": "ø", "\\O": "Ø", "\\aa": "å", "\\AA": "Å", "\\l": "ł",
    "\\L": "Ł", "\\oe": "œ", "\\OE": "Œ", "\\ldots": "…", "\\dots": "…",
}  # fmt: skip
QUOTES = re.compile(r"``|''|---|--|~|,,")
QUOTE_SIGNS = {"``": "“", "''": "”", "---": "—", "--": "–", "~": "\xa0", ",,": "„"}
SIGNS = "{}%$&#_"
SPECIAL = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\xa0": "~",
    **{sign: f"\\{sign}" for sign in SIGNS},
}  # fmt: skip
SPACES = re.compile(rf"[ \t\n{CONTROL}]+")
COMMAND_END = re.compile(r"\\[A-Za-z@]+\Z")
FIRST = re.compile(r"\A(\s*)([\[*])")


def escape(text: str) -> str:
    """A text without commands; a bracket at its start is no argument."""
    text = "".join(SPECIAL.get(sign, sign) for sign in SPACES.sub(" ", text))
    return FIRST.sub(r"\1{\2}", text)


TEX = Syntax(escape, keeps_tags=False)


@dataclass(frozen=True)
class TexSegment(Segment):
    """A sentence in which a command keeps a space before letters."""

    follows_command: bool = False
    """It begins directly behind one."""

    def restore(self, translation: str) -> str:
        """The translation as the document writes it."""
        if translation == self.sentence:
            return self.source
        if self.is_empty(SPACES.sub(" ", translation)):
            return self.source
        words = {name for name, source in self.marks if COMMAND_END.search(source)}
        parts = re.split(rf"({MARK.pattern})", SPACES.sub(" ", translation))
        for number in range(1, len(parts), 2):
            if parts[number] in words and re.match(r"[A-Za-z@*\[]", parts[number + 1]):
                parts[number + 1] = f" {parts[number + 1]}"
        written = super().restore("".join(parts).strip())
        return f" {written}" if self.follows_command and re.match(r"[A-Za-z@*\[]", written) else written


def read(content: bytes, reading: Reading) -> DocumentFile:
    """A LaTeX file. Raises `DragomanError` if its groups do not match, or characters get other meanings."""
    text, encoding = decode_text(content, reading.name)
    if match := CATCODE.search(text):
        raise DragomanError(
            f"{reading.name} uses {match[0]}, which gives characters other meanings, so that its text cannot "
            "be told; --format text reads it as a text."
        )
    tokens = read_tokens(text, reading.name)
    blocks = Scanner(text, tokens, partners(tokens, reading.name)).blocks()
    segments = compose(text, blocks, reading.source, reading.split, TEX).segments
    return Document(text, tuple(tex_segment(text, segment) for segment in segments), encoding=encoding)


def tex_segment(text: str, segment: Segment) -> TexSegment:
    """The segment, which knows what stands before it."""
    follows_command = COMMAND_END.search(text, max(0, segment.start - 40), segment.start) is not None
    return TexSegment(
        segment.sentence, segment.start, segment.end, segment.source, segment.syntax, segment.marks,
        follows_command,
    )  # fmt: skip


class Scanner:
    """The tokens of a source, read from the first to the last."""

    def __init__(self, text: str, tokens: list[Token], partner: dict[int, int]) -> None:
        self.text, self.tokens, self.partner = text, tokens, partner
        self.starts = [token.start for token in tokens]
        self.environments = ENVIRONMENTS | set(NEW_THEOREM.findall(text))
        self.closing: dict[int, str] = {}
        """The tokens that end a group: the name of the pair that it closes, or "" if it ends a block."""

    def blocks(self) -> Iterator[Block]:
        """The blocks of the text; all of it is in the document if this has no beginning."""
        names = [token.name if token.kind == "begin" else "" for token in self.tokens]
        in_document = "document" not in names
        block: Block = []
        number = 0
        while number < len(self.tokens):
            token = self.tokens[number]
            if not in_document:
                in_document = names[number] == "document"
                is_title = token.kind == "command" and token.name[1:] in PREAMBLE
                if (
                    not is_title
                    and number not in self.closing
                    and not any(number < end for end in self.closing)
                ):
                    number += 1
                    continue
            pieces, number = self.read(number)
            if pieces is None:
                yield block
                block = []
            else:
                block += pieces
        yield block

    def read(self, number: int) -> tuple[list[Piece] | None, int]:
        """The pieces of a token and what belongs to it, and the next token; None if it ends a block."""
        token = self.tokens[number]
        kind, start, end = token.kind, token.start, token.end
        several = {
            "math": self.formula, "display": self.formula, "begin": self.environment, "command": self.command
        }  # fmt: skip
        if kind in several:
            return several[kind](number)
        pieces: list[Piece] | None = None
        if kind in {"text", "other"}:
            pieces = list(text_pieces(self.text, start, end))
        elif kind == "space":
            pieces = [Piece("text", " ", start, end)]
        elif kind == "accent":
            letter = token.name[-1] + ACCENTS[self.text[start + 1]]
            pieces = [Piece("text", unicodedata.normalize("NFC", letter), start, end)]
        elif kind == "symbol":
            sign = self.text[start + 1]
            pieces = [Piece("text", sign, start, end) if sign in SIGNS else Piece("alone", "", start, end)]
        elif kind == "open":
            self.closing[self.partner[number]] = "{"
            pieces = [Piece("open", "{", start, end)]
        elif kind == "close" and (name := self.closing.get(number, "{")):
            pieces = [Piece("close", name, start, end)]
        elif kind in {"comment", "verb"}:
            pieces = [Piece("alone", "" if kind == "comment" else STANDS_FOR, start, end)]
        return pieces, number + 1

    def formula(self, number: int) -> tuple[list[Piece] | None, int]:
        """A formula. A displayed one ends a block."""
        token = self.tokens[number]
        opening = self.text[token.start : token.end]
        closing = {"\\(": "\\)", "\\[": "\\]"}.get(opening, opening)
        last = number + 1
        while last < len(self.tokens) and not self.is_token(last, token.kind, closing):
            if self.tokens[last].kind == "paragraph":
                break  # it does not end
            last += 1
        last = min(last, len(self.tokens) - 1)
        if token.kind == "display":
            return None, last + 1
        return [Piece("alone", STANDS_FOR, token.start, self.tokens[last].end)], last + 1

    def is_token(self, number: int, kind: str, text: str) -> bool:
        """Whether a token is of this kind and text."""
        token = self.tokens[number]
        return token.kind == kind and self.text[token.start : token.end] == text

    def environment(self, number: int) -> tuple[list[Piece] | None, int]:
        """The beginning of an environment, with its arguments; one without text is kept whole."""
        name = self.tokens[number].name.rstrip("*")
        if name not in self.environments:
            return None, self.partner[number] + 1
        following = self.after_optional(number + 1)
        while self.is_open(following):
            if name in TITLED:
                self.closing[self.partner[following]] = ""
                return None, following + 1
            following = self.after_optional(self.partner[following] + 1)
        return None, following

    def command(self, number: int) -> tuple[list[Piece] | None, int]:
        """A command with its arguments."""
        token = self.tokens[number]
        start = token.start
        name = token.name[1:].rstrip("*")
        following = self.after_optional(number + 1)
        if name in BREAKS:
            return None, following
        if name in BLOCKS and self.is_open(following):
            self.closing[self.partner[following]] = ""
            return None, following + 1
        arguments = INLINE.get(name, 0)
        for _ in range(arguments - 1):
            if self.is_open(following):
                following = self.after_optional(self.partner[following] + 1)
        if arguments and self.is_open(following):
            self.closing[self.partner[following]] = name
            return [Piece("open", name, start, self.tokens[following].end)], following + 1
        if token.name in LETTERS and following == number + 1:
            if self.is_open(following) and self.partner[following] == following + 1:
                following += 2
            elif following < len(self.tokens) and self.tokens[following].kind == "space":
                following += 1
            return [Piece("text", LETTERS[token.name], start, self.tokens[following - 1].end)], following
        return self.unknown(number, following, name)

    def unknown(self, number: int, following: int, name: str) -> tuple[list[Piece], int]:
        """A command whose arguments may be anything: they are kept."""
        if name in DEFINITIONS:
            while following < len(self.tokens) and self.tokens[following].kind in {
                "command",
                "text",
                "symbol",
            }:
                following += 1
        while self.is_open(following):
            following = self.after_optional(self.partner[following] + 1)
        end = self.tokens[following - 1].end
        is_word = name.startswith(("cite", "ref", "eqref", "cref", "Cref", "autoref", "url", "LaTeX", "TeX"))
        return [Piece("alone", STANDS_FOR if is_word else "", self.tokens[number].start, end)], following

    def is_open(self, number: int) -> bool:
        """Whether a token opens a group."""
        return number < len(self.tokens) and self.tokens[number].kind == "open"

    def after_optional(self, number: int) -> int:
        """The token behind an argument in brackets; this one if there is none."""
        if number < len(self.tokens):
            match = OPTIONAL.match(self.text, self.tokens[number].start)
            following = bisect_left(self.starts, match.end()) if match else number
            is_edge = following == len(self.starts) or (match and self.starts[following] == match.end())
            if match and is_edge:
                return following
        return number


def text_pieces(text: str, start: int, end: int) -> Iterator[Piece]:
    """A text, with the signs for quotation marks and dashes as characters, and control characters kept."""
    for match in re.compile(rf"{QUOTES.pattern}|[{CONTROL}]").finditer(text, start, end):
        if start < match.start():
            yield Piece("text", text[start : match.start()], start, match.start())
        sign = QUOTE_SIGNS.get(match[0])
        yield Piece("text", sign, *match.span()) if sign else Piece("alone", "", *match.span())
        start = match.end()
    if start < end:
        yield Piece("text", text[start:end], start, end)
