"""Advanced SubStation Alpha (.ass) and its predecessor (.ssa): the texts of their dialogue lines."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from dragoman.documents.document import Syntax
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.subtitles import Cue, Form, subtitles
from dragoman.system.errors import DragomanError
from dragoman.translation.sentence_ends import CONTROL

LINE = re.compile(r"[^\r\n]+")
TIME = re.compile(r"\s*(\d{1,4}):(\d{1,2}):(\d{1,2}(?:\.\d{1,3})?)\s*\Z")
DRAWING = re.compile(r"\\p[1-9]")
SPACES = re.compile(rf"[\s{CONTROL}]+")
WORD_JOINER = "\u2060"  # has no width
COMMAND = re.compile(r"\\(?=[Nnh{}\\])")


def escape_ass(text: str) -> str:
    """A text for a dialogue line, which has no escapes: braces become parentheses."""
    text = SPACES.sub(" ", text).replace("{", "(").replace("}", ")")
    return COMMAND.sub("\\\\" + WORD_JOINER, text)


ASS = Form(Syntax(escape_ass, keeps_tags=False), r"\{[^{}\r\n]*\}", r"\\[Nn]", r"\\h", lambda _: "\xa0")


class Columns(NamedTuple):
    """The places of the fields in a dialogue line."""

    start: int
    end: int
    speaker: tuple[int, ...]
    """Of style, name, layer and effect."""
    width: int
    """The number of fields."""


V4_PLUS = Columns(1, 2, (0, 3, 4, 8), 10)
"""Of files that have no Format line."""


def read(content: bytes, reading: Reading) -> DocumentFile:
    """A file of this format. Raises `DragomanError` if it has no section [Events]."""
    text, encoding = decode_text(content, reading.name)
    cues = cues_of(text)
    if cues is None:
        raise DragomanError(f"{reading.name} has no section [Events], so it is no .ass or .ssa file.")
    result = subtitles(text, cues, reading, ASS)
    return replace(result, document=replace(result.document, encoding=encoding))


def cues_of(text: str) -> list[Cue] | None:
    """The cues of a file; None if it has no section for them. Drawings have no text."""
    section: str | None = None
    has_events = False
    columns = V4_PLUS
    cues: list[Cue] = []
    for line in LINE.finditer(text):
        content = line[0].lstrip("\ufeff \t")
        name, colon, _ = content.partition(":")
        if content.startswith("["):
            section = content.strip().lower()
            has_events |= section == "[events]"
        elif section == "[events]" and colon and name.strip().lower() == "format":
            columns = columns_of(content)
        elif section == "[events]" and colon and name.strip().lower() == "dialogue":
            cues += dialogue(
                text, line.start() + len(line[0]) - len(content) + len(name) + 1, line.end(), columns
            )
    return cues if has_events else None


def columns_of(line: str) -> Columns:
    """The columns that a Format line names; those of .ass if it is damaged."""
    names = [name.strip().lower() for name in line.partition(":")[2].split(",")]
    if not {"start", "end"} <= set(names) or names[-1] != "text":
        return V4_PLUS
    speaker = [
        place for place, name in enumerate(names) if name in {"layer", "style", "name", "actor", "effect"}
    ]
    return Columns(names.index("start"), names.index("end"), tuple(speaker), len(names))


def dialogue(text: str, start: int, end: int, columns: Columns) -> Iterator[Cue]:
    """The cue of the fields from `start` to `end`; none if they are damaged or draw a picture."""
    fields = text[start:end].split(",", columns.width - 1)
    if len(fields) < columns.width or DRAWING.search(fields[-1]):
        return
    times = TIME.match(fields[columns.start]), TIME.match(fields[columns.end])
    begins, ends = (seconds(time) for time in times)
    speaker = ",".join(fields[place] for place in columns.speaker)
    yield Cue(end - len(fields[-1]), end, begins, ends, speaker)


def seconds(time: re.Match[str] | None) -> float:
    """The seconds of a time; those of a damaged one are far from all others."""
    return 3600 * int(time[1]) + 60 * int(time[2]) + float(time[3]) if time else float("inf")
