"""How translations are written in Markdown."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.documents.document import MARK, Segment, Syntax, is_unpaired
from dragoman.documents.markdown_inline import PARSER, read_inline
from dragoman.documents.markup import MARKUP
from dragoman.translation.sentence_ends import CONTROL

SPACES = re.compile(rf"[ \t{CONTROL}]+")
SPECIAL = re.compile(
    r"[\\`*\[\]$]|~(?=~)|(?<=~)~|<(?=[A-Za-z/!?]|\Z)|&(?=#?\w+;)"
    r"|(?<![^\W_])_|_(?![^\W_])|(?:(?<= )|\A)#+\s*\Z"
)
"""What may be Markdown anywhere in a text."""
LINE_START = re.compile(r"\s*(?:[-+#>=|:]|\d{1,9}(?=[.)](?:\s|\Z)))")
"""What may be Markdown at the start of a line."""
NEXT_LINE = re.compile(r"(?:\r\n?|\n)[ \t>]*")
"""The end of a line in a mark, and what stands before the next line in a quotation or list."""
HTML_TAGS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}


def escape(text: str) -> str:
    """A text without what Markdown would read in it."""
    return SPECIAL.sub(lambda match: f"\\{match[0]}", SPACES.sub(" ", text))


def escape_cell(text: str) -> str:
    """A text for a cell of a table."""
    return escape(text).replace("|", "\\|")


def escape_start(text: str) -> str:
    """A text at the start of a line."""
    match = LINE_START.match(text)
    if match is None:
        return text
    place = match.end() if match[0][-1].isdigit() else match.end() - 1
    return f"{text[:place]}\\{text[place:]}"


PARAGRAPH = Syntax(escape, keeps_tags=False)
CELL = Syntax(escape_cell, keeps_tags=False)
TITLE = Syntax(lambda text: escape(text).replace('"', "”"), keeps_tags=False)
HTML_BLOCK = Syntax(lambda text: MARKUP.escape(SPACES.sub(" ", text)), keeps_tags=True)


@dataclass(frozen=True)
class MarkdownSegment(Segment):
    """A sentence of Markdown. Its marks are written so that Markdown reads the same marks."""

    is_line_start: bool = False
    suffix: str = ""
    """What ends the link around the sentence, if it is known by its own text."""

    def restore(self, translation: str) -> str:
        """The translation as the document writes it.

        Where asterisks would mark nothing, because of what stands beside them, HTML's tags are written. Where
        these cannot be written either, the sentence is kept.
        """
        if translation == self.sentence:
            return self.source
        translation = SPACES.sub(" ", translation).strip()
        if self.is_empty(translation):
            return self.source
        if not self.marks:
            text = self.syntax.escape(translation)
            return (escape_start(text) if self.is_line_start else text) + self.suffix
        tidy = tidied(translation)
        for segment in (self, replace(self, marks=html_marks(self.marks))):
            written = Segment.restore(segment, tidy).strip()
            if self.is_line_start and not MARK.match(tidy):
                written = escape_start(written)
            if segment.is_read_as_marks(written):
                return written + self.suffix
        return self.source

    def is_read_as_marks(self, written: str) -> bool:
        """Whether Markdown reads the same marks in a text as in the sentence, and a single paragraph."""
        written, source = (NEXT_LINE.sub("\n", text) for text in (written, self.source))
        if self.is_line_start and [token.type for token in PARSER.parse(written)] != A_PARAGRAPH:
            return False
        return kinds(written) == kinds(source)


A_PARAGRAPH = ["paragraph_open", "inline", "paragraph_close"]


def kinds(text: str) -> Counter[str]:
    """What Markdown reads in a text beside text, and how often."""
    result: Counter[str] = Counter()
    for noted in read_inline(text, {}):
        kind = noted.token.type
        if kind == "html_inline" and text[noted.start : noted.end].strip("</>") in HTML_TAGS.values():
            name = text[noted.start : noted.end].strip("</>")
            kind = f"{name}_{'close' if text.startswith('</', noted.start) else 'open'}"
        result[kind.replace("s_", "del_") if kind in {"s_open", "s_close"} else kind] += 1
    for kind in ("softbreak", "text_special"):
        result.pop(kind, None)
    return result


def tidied(translation: str) -> str:
    """A translation without white space at the inner edges of its pairs of marks."""
    translation = re.sub(r"((?:<g\d+>)+)(\s+)", r"\2\1", translation)
    return re.sub(r"(?<!\s)(\s+)((?:</g\d+>)+)", r"\2\1", translation)


def html_marks(marks: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The marks, with HTML's tags for the pairs of asterisks and the like."""
    names = {name for name, _ in marks}
    return tuple(
        (name, f"</{HTML_TAGS[source]}>" if name.startswith("</") else f"<{HTML_TAGS[source]}>")
        if source in HTML_TAGS and not is_unpaired(name, names)
        else (name, source)
        for name, source in marks
    )
