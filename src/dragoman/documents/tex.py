"""LaTeX: its text, and the arguments of the commands that are known to take text. The others are kept."""

import re
from dataclasses import dataclass

from dragoman.documents.document import MARK, Document, Segment, Syntax, compose
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.tex_blocks import SIGNS, Scanner
from dragoman.documents.tex_tokens import partners, read_tokens
from dragoman.system.errors import DragomanError
from dragoman.translation.sentence_ends import CONTROL

CATCODE = re.compile(r"\\(?:catcode|lccode|DeclareActiveChar|MakeShortVerb)\b")
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
