"""LaTeX: the tokens of a source, and which brace and which environment ends where."""

import re
from typing import Literal, NamedTuple

from dragoman.system.errors import DragomanError

VERBATIM = ("verbatim", "Verbatim", "lstlisting", "minted", "comment", "filecontents", "alltt", "BVerbatim")
TOKEN = re.compile(
    r"(?P<comment>%[^\r\n]*(?:\r\n?|\n)?[ \t]*)"
    r"|\\begin[ \t]*\{(?P<begin>[^{}\\\r\n]*)\}|\\end[ \t]*\{(?P<end>[^{}\\\r\n]*)\}"
    r"|(?P<verb>\\(?:verb\*?|lstinline(?:\[[^\]\r\n]{0,200}\])?)(?P<quote>[^\sA-Za-z*{])[^\r\n]{0,500}?(?P=quote))"
    r"""|\\(?:[`'^~=."]\s*|[urHvck](?:\s+|(?=\{)))"""
    r"(?P<accent>\{\s*\\?[A-Za-z]\s*\}|\\[ij](?![A-Za-z])|[A-Za-z])"
    r"|(?P<command>\\[A-Za-z@]+\*?)|(?P<display>\$\$|\\\[|\\\])|(?P<math>\$|\\\(|\\\))"
    r"|(?P<line>\\\\\*?(?:\[[^\[\]{}\r\n]*\])?|&)|(?P<symbol>\\(?s:.))|(?P<open>\{)|(?P<close>\})"
    r"|(?P<paragraph>[ \t]*+(?:\r\n?+|\n)[ \t]*+(?:(?:\r\n?+|\n)[ \t]*+)+)|(?P<space>\s+)"
    r"|(?P<text>[^\\{}$%&\s\[\]]+|[\[\]])|(?P<other>.)"
)


class Token(NamedTuple):
    """A part of the source, and the name of a command or an environment, or the letter under an accent."""

    kind: Literal[
        "comment", "begin", "end", "verb", "accent", "command", "display", "math", "line", "symbol", "open",
        "close",
        "paragraph", "space", "text", "other",
    ]  # fmt: skip
    name: str
    start: int
    end: int


def read_tokens(text: str, name: str) -> list[Token]:
    """The tokens of a source with this name, of which verbatim environments are one ("verb").

    Raises `DragomanError` if one of these does not end.
    """
    tokens: list[Token] = []
    position = 0
    while match := TOKEN.match(text, position):
        kind = "verb" if match["verb"] else str(match.lastgroup)
        value = match["begin"] or match["end"] or match["command"] or match["accent"] or ""
        position = match.end()
        if kind == "accent":
            value = value.strip("{} \t\r\n\\")
        if kind == "begin" and value.rstrip("*") in VERBATIM:
            closing = f"\\end{{{value}}}"
            place = text.find(closing, position)
            if place < 0:
                raise DragomanError(f"{name} has \\begin{{{value}}} without its end; add {closing}.")
            kind, position = "verb", place + len(closing)
        tokens.append(Token(kind, value, match.start(), position))  # type: ignore[arg-type]
    return tokens


def partners(tokens: list[Token], name: str) -> dict[int, int]:
    """The numbers of the tokens that open a group, an environment or a formula, and of those that end them.

    Raises `DragomanError` where one has no partner.
    """
    result: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    for number, token in enumerate(tokens):
        kind = token.kind
        if kind in {"open", "begin"}:
            opened.append((token.name or "{", number))
        elif kind in {"close", "end"}:
            wanted = token.name or "{"
            if not opened or opened[-1][0] != wanted:
                sign = "}" if kind == "close" else f"\\end{{{token.name}}}"
                raise DragomanError(
                    f"{name} has {sign} without its beginning, at character {token.start + 1}; it may use "
                    "macros that cannot be read without running them."
                )
            result[opened.pop()[1]] = number
    if opened:
        place = tokens[opened[-1][1]].start + 1
        raise DragomanError(f"{name} has a group without an end, which begins at character {place}.")
    return result
