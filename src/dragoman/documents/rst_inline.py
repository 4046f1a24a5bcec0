"""The inside of a paragraph of reStructuredText: its pieces, and how translations are written there."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.documents.document import MARK, Piece, Segment, Syntax
from dragoman.documents.markdown_text import tidied
from dragoman.documents.markup import STANDS_FOR
from dragoman.translation.sentence_ends import CONTROL

BEFORE = r"(?<![^\s'\"(\[{<\-/:‘“«‚„–—])"
AFTER = r"(?=[\s'\")\]}>\-/:.,;!?\\’”»–—]|\Z)"
"""What may stand before and after a mark."""
INLINE = re.compile(
    rf"(?P<space>(?<![ \t])[ \t]*+\n[ \t]*)|(?P<escape>\\(?s:.))|(?P<control>[{CONTROL}])"
    rf"|{BEFORE}(?:"
    r"(?P<literal>``(?=[^\s`])(?:[^`]|`(?!`))+?(?<!\s)``(?!`)"
    r"|\|(?=[^\s|])[^|\n]+(?<!\s)\|_{0,2}|\[[\w#*.-]+\]_|_`[^`]+`)"
    r"|(?P<link>(?P<open>(?::(?:ref|doc|term|numref|any|download):)?`)(?=[^\s<])(?P<text>[^`<]*[^`<\s])"
    r"(?P<close>\s+<[^`<>]+>`_{0,2}))"
    r"|(?P<role>(?::[\w.:+-]{1,100}:)?`(?=\S)[^`]+`(?:_{1,2}|:[\w.:+-]+:)?)"
    r"|(?P<strong>\*\*(?=[^\s*])(?:[^*\\]|\\(?s:.)|\*(?!\*))+?(?<!\s)\*\*)"
    r"|(?P<em>\*(?=[^\s*])(?:[^*\\]|\\(?s:.))+?(?<!\s)\*)"
    rf"){AFTER}|(?<![\w-])(?P<reference>_*+[^\W_]++(?:(?:_++|[-.+:])[^\W_]++){{0,50}}_++|__++){AFTER}"
)
JOIN = "\x00"  # stands in a translation for `\ `, which separates marks from letters
SPECIAL = re.compile(r"[\\*`|]|_(?![^\W_])|:(?=:\s*\Z)")
LINE_START = re.compile(
    r"[-+•‣⁃](?:\s|\Z)|\(?(?:\d+|[A-Za-z]|[ivxlcdmIVXLCDM]+|#)[.)](?:\s|\Z)|\.\.|__|>>>|:[^:\n]+:(?:\s|\Z)|--?[A-Za-z]"
    r"|/[A-Za-z]|\+[-=]|[!-/:-@\[-`{-~]{2,}(?:\s|\Z)|=+\s|[!-/:-@\[-`{-~]\Z"
)
"""What may begin another block."""
SPACES = re.compile(r"[ \t\n]+")
CONTROLS = re.compile(f"[{CONTROL}]")


def escape(text: str) -> str:
    """A text without what would be markup in it."""
    text = SPACES.sub(" ", text)
    return SPECIAL.sub(lambda match: f"\\{match[0]}", text).replace(JOIN, "\\ ")


RST = Syntax(escape, keeps_tags=False)


@dataclass(frozen=True)
class RstSegment(Segment):
    """A sentence whose marks are separated from letters beside them, as reStructuredText demands."""

    is_line_start: bool = False

    def restore(self, translation: str) -> str:
        """The translation as the document writes it; the sentence if its marks would not be read as such."""
        if translation == self.sentence:
            return self.source
        translation = SPACES.sub(" ", CONTROLS.sub(" ", translation)).strip()
        if self.is_empty(translation):
            return self.source
        written = super().restore(separated(tidied(translation))) if self.marks else escape(translation)
        is_start = self.is_line_start and not MARK.match(translation) and written[0] != "\\"
        if not written.strip("\\"):
            written = f"\\ {written}"  # not a line of one sign, which would be a transition
        elif is_start and LINE_START.match(written):
            written = f"\\{written}"
        return written if not self.marks or kinds(written) == kinds(self.source) else self.source


def separated(translation: str) -> str:
    """A translation with `JOIN` between its marks and letters."""
    translation = re.sub(r"(?<![\s'\"(\[{<\-/:‘“«‚„–—])(?=<g\d+/?>)(?!\A)", JOIN, translation)
    return re.sub(r"(</g\d+>|<g\d+/>)(?=[^\s'\")\]}>\-/:.,;!?’”»–—\x00]|\Z)(?!\Z)", rf"\1{JOIN}", translation)


def kinds(text: str) -> Counter[str]:
    """The marks in a text, and how often they are in it."""
    marks = Counter(text[piece.start : piece.end] for piece in pieces_of(text) if piece.kind != "text")
    del marks["\\ "]
    return marks


def pieces_of(text: str) -> Iterator[Piece]:
    """The pieces of a text; a line end is a space."""
    yield from inner_pieces(text, 0, len(text))


def inner_pieces(text: str, done: int, end: int, *, is_flat: bool = False) -> Iterator[Piece]:
    """The pieces of a part of a text; a flat one has escapes only."""
    for match in INLINE.finditer(text, done, end):
        kind, (start, stop) = str(match.lastgroup), match.span()
        kind = next(name for name in KINDS if match[name] is not None)
        if is_flat and kind not in {"space", "escape", "control"}:
            continue
        if done < start:
            yield Piece("text", text[done:start], done, start)
        done = stop
        if kind == "space":
            yield Piece("text", " ", start, stop)
        elif kind == "escape" and not match[0][1].isspace():
            yield Piece("text", match[0][1], start, stop)
        elif kind in {"strong", "em"}:
            width = 2 if kind == "strong" else 1
            yield Piece("open", kind, start, start + width)
            yield from inner_pieces(text, start + width, stop - width, is_flat=True)
            yield Piece("close", kind, stop - width, stop)
        elif kind == "link":
            yield Piece("open", kind, *match.span("open"))
            yield from inner_pieces(text, *match.span("text"), is_flat=True)
            yield Piece("close", kind, *match.span("close"))
        else:
            yield Piece("alone", "" if kind in {"escape", "control"} else STANDS_FOR, start, stop)
    if done < end:
        yield Piece("text", text[done:end], done, end)


KINDS = ("space", "escape", "control", "literal", "link", "role", "strong", "em", "reference")
