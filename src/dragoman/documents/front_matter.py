"""The front matter of a Markdown file (YAML or TOML): the strings of its title and description."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.documents.document import Document, Piece, Segment, Syntax, compose
from dragoman.translation.sentence_ends import CONTROL

FRONT = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*(?:\r\n?|\n)(?:[^\r\n]*(?:\r\n?|\n))*?\1[ \t]*(?:\r\n?|\n|\Z)")
ENTRY = re.compile(
    r"""(?<![^\r\n])(?:title|description)[ \t]*[:=][ \t]+"""
    r"""(?P<value>"(?:[^"\\\r\n]|\\["\\])*"|"""
    r"""'(?:[^'\r\n]|'')*'|[^\s"'|>\[{&*!%@`#-][^\r\n]*?)(?<![ \t])[ \t]*"""
    r"""(?=(?:[ \t]#[^\r\n]*)?(?:\r\n?+|\n)(?![ \t]))"""
)
"""A string in one line."""
ESCAPED = re.compile(r"""\\["\\]|''""")
SPACES = re.compile(rf"[\s{CONTROL}]+")


def escape_quoted(text: str) -> str:
    """A text for a string in double quotes, of YAML and TOML."""
    return SPACES.sub(" ", text).replace("\\", "\\\\").replace('"', '\\"')


QUOTED = Syntax(escape_quoted, keeps_tags=False)


@dataclass(frozen=True)
class StringSegment(Segment):
    """A string, with its quotation marks if it has any; a translation has double ones."""

    def restore(self, translation: str) -> str:
        """The translation as a string."""
        return self.source if translation == self.sentence else f'"{super().restore(translation)}"'


def front_matter_end(text: str) -> int:
    """Where the front matter ends with which a text begins, or its byte order mark."""
    match = FRONT.match(text)
    return match.end() if match else int(text.startswith("\ufeff"))


def front_matter(text: str, end: int, language: str) -> Iterator[Segment]:
    """The strings of the title and the description in the front matter, which ends at `end`."""
    for entry in ENTRY.finditer(text, 0, end):
        document: Document = compose(text, [list(pieces(text, entry))], language, False, QUOTED)
        start, stop = entry.span("value")
        for segment in document.segments[:1]:
            is_whole = not text[start : segment.start].strip("\"'") and not text[segment.end : stop].strip(
                "\"'"
            )
            if is_whole and len(document.segments) == 1:
                yield StringSegment(
                    segment.sentence, start, stop, text[start:stop], segment.syntax, segment.marks
                )


def pieces(text: str, entry: re.Match[str]) -> Iterator[Piece]:
    """The pieces of a string without its quotation marks."""
    start, end = entry.span("value")
    if text[start] in "\"'":
        start, end = start + 1, end - 1
        quote = text[start - 1]
        for match in ESCAPED.finditer(text, start, end):
            if start < match.start():
                yield Piece("text", text[start : match.start()], start, match.start())
            character = match[0][1] if (quote == '"') == (match[0][0] == "\\") else match[0]
            yield Piece("text", character, *match.span())
            start = match.end()
    if start < end:
        yield Piece("text", text[start:end], start, end)
