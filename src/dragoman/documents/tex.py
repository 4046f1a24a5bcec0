"""LaTeX: its text, and the arguments of the commands that are known to take text. The others are kept."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.documents.document import MARK, Document, Segment, Syntax, compose
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.nested import put_back
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
NOTE = "\x0e\n\n"
"""What a footnote begins with where it stands behind the text."""
OF_NOTES = re.compile("[\x0e-\x11]")
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


@dataclass(frozen=True)
class TexFile:
    """A file whose footnotes stand behind its text, as `take_out_notes` puts them there."""

    document: Document
    language: str = ""

    @property
    def segments(self) -> Sequence[Segment]:
        """The sentences."""
        return self.document.segments

    def write(self, translations: Sequence[str]) -> bytes:
        """The file with the translations. Raises as `Document.join`."""
        text = put_back(self.document.join(translations).replace(NOTE, NOTE[0]))
        return text.encode(self.document.encoding, "surrogateescape")


def take_out_notes(text: str, notes: Sequence[tuple[int, int]]) -> str:
    """A text without what stands in these places, which follows it as paragraphs, for `put_back`."""
    parts: list[str] = []
    units: list[str] = []
    done = 0
    for number, (start, end) in enumerate(notes):
        parts += (text[done:start], f"\x10{number}\x11")
        units.append(f"{NOTE}{text[start:end]}\x0f")
        done = end
    return "".join([*parts, text[done:], *units])


def read(content: bytes, reading: Reading) -> DocumentFile:
    """A LaTeX file. Raises `DragomanError` if its groups do not match, or characters get other meanings."""
    text, encoding = decode_text(content, reading.name)
    if match := CATCODE.search(text):
        raise DragomanError(
            f"{reading.name} uses {match[0]}, which gives characters other meanings, so that its text cannot "
            "be told; --format text reads it as a text."
        )
    tokens = read_tokens(text, reading.name)
    scanner = Scanner(text, tokens, partners(tokens, reading.name))
    blocks = list(scanner.blocks())
    if scanner.notes and not OF_NOTES.search(text):
        text = take_out_notes(text, scanner.notes)
        tokens = read_tokens(text, reading.name)
        blocks = list(Scanner(text, tokens, partners(tokens, reading.name)).blocks())
    segments = compose(text, blocks, reading.source, reading.split, TEX).segments
    document = Document(text, tuple(tex_segment(text, segment) for segment in segments), encoding=encoding)
    return TexFile(document)


def tex_segment(text: str, segment: Segment) -> TexSegment:
    """The segment, which knows what stands before it."""
    follows_command = COMMAND_END.search(text, max(0, segment.start - 40), segment.start) is not None
    return TexSegment(
        segment.sentence, segment.start, segment.end, segment.source, segment.syntax, segment.marks,
        follows_command,
    )  # fmt: skip
