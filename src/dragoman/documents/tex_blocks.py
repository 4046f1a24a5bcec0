"""The blocks of a LaTeX text: arguments of commands that are known to take text, and what is around them."""

import re
import unicodedata
from collections.abc import Iterator

from dragoman.documents.document import Block, Piece
from dragoman.documents.markup import STANDS_FOR
from dragoman.documents.tex_tokens import Token
from dragoman.translation.sentence_ends import CONTROL

INLINE = {
    **dict.fromkeys(
        (
            "emph", "textbf", "textit", "textsc", "textsf", "textrm", "textsl", "textup", "textmd",
            "textnormal", "underline", "uline", "enquote", "mbox", "textsuperscript", "alert",
            "text",
        ),
        1,
    ),
    **dict.fromkeys(("href", "textcolor", "colorbox", "hyperref", "foreignlanguage"), 2),
    **dict.fromkeys(("multicolumn", "multirow"), 3),
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
NOT_IN_BRACKETS = frozenset(("paragraph", "begin", "end", "close", "line", "display"))
"""Tokens that no argument in brackets has outside of its groups."""
ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306", ".": "\u0307",
    '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "c": "\u0327", "k": "\u0328",
}  # fmt: skip
LETTERS = {
    "\\ss": "ß", "\\ae": "æ", "\\AE": "Æ", "\\o": "ø", "\\O": "Ø", "\\aa": "å", "\\AA": "Å", "\\l": "ł",
    "\\textbackslash": "\\", "\\textasciitilde": "~", "\\textasciicircum": "^",
    "\\L": "Ł", "\\oe": "œ", "\\OE": "Œ", "\\ldots": "…", "\\dots": "…",
}  # fmt: skip
QUOTES = re.compile(r"``|''|---|--|~|,,")
QUOTE_SIGNS = {"``": "“", "''": "”", "---": "—", "--": "–", "~": "\xa0", ",,": "„"}
SIGNS = "{}%$&#_"


class Scanner:
    """The tokens of a source, read from the first to the last."""

    def __init__(self, text: str, tokens: list[Token], partner: dict[int, int]) -> None:
        self.text, self.tokens, self.partner = text, tokens, partner
        self.notes: list[tuple[int, int]] = []
        """The places of the texts of footnotes."""
        self.environments = ENVIRONMENTS | set(NEW_THEOREM.findall(text))
        self.closing: dict[int, str] = {}
        """The tokens that end a group: the name of the pair that it closes, or "" if it ends a block."""

    def blocks(self) -> Iterator[Block]:
        """The blocks of the text; all of it is in the document if this has no beginning."""
        names = [token.name if token.kind == "begin" else "" for token in self.tokens]
        in_document = "document" not in names
        block: Block = []
        number, title_end = 0, -1
        while number < len(self.tokens):
            token = self.tokens[number]
            if not in_document:
                in_document = names[number] == "document"
                is_title = token.kind == "command" and token.name[1:] in PREAMBLE
                if not is_title and number > title_end:
                    number += 1
                    continue
            pieces, number = self.read(number)
            title_end = max(title_end, next(reversed(self.closing), -1))  # the group that began last
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
        elif kind == "open" and self.text[end : end + 2] in {"[}", "*}"}:  # no argument
            return [Piece("text", self.text[end], start, end + 2)], self.partner[number] + 1
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
        return self.is_kind(number, kind) and self.source(number) == text

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
        if name == "footnote" and self.is_open(following):
            closing = self.tokens[self.partner[following]]
            self.notes.append((self.tokens[following].end, closing.start))
            return [Piece("alone", "", start, closing.end)], self.partner[following] + 1
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
        return self.is_kind(number, "open")

    def after_optional(self, number: int) -> int:
        """The token behind arguments in brackets; this one if there are none."""
        place = number
        if self.is_kind(place, "space") and not {"\r", "\n"} & set(self.source(place)):
            place += 1
        while self.is_token(place, "text", "["):
            place += 1
            while place < len(self.tokens) and self.tokens[place].kind not in NOT_IN_BRACKETS:
                if self.is_token(place, "text", "[") or self.is_token(place, "text", "]"):
                    break
                place = self.partner[place] + 1 if self.is_open(place) else place + 1
            if not self.is_token(place, "text", "]"):
                break
            number = place = place + 1
        return number

    def is_kind(self, number: int, kind: str) -> bool:
        """Whether there is a token, and of this kind."""
        return number < len(self.tokens) and self.tokens[number].kind == kind

    def source(self, number: int) -> str:
        """The characters of a token."""
        return self.text[self.tokens[number].start : self.tokens[number].end]


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
