"""SubRip and WebVTT: the cues of their files, and what is written in them."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import escape, unescape
from itertools import zip_longest

from dragoman.documents.document import Syntax
from dragoman.documents.file import DocumentFile, Reading, decode_text
from dragoman.documents.subtitles import Cue, Form, Subtitles, subtitles
from dragoman.system.errors import DragomanError
from dragoman.translation.sentence_ends import CONTROL

TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
HEADER = re.compile(rf"(?<![^\r\n\ufeff])[ \t]*{TIME}[ \t]*-->[ \t]*{TIME}[^\r\n]*")
"""The line of a cue's times."""
A_LINE = r"[^\S\r\n]*+\S[^\r\n]*"
LINES = re.compile(rf"(?<![^\r\n]){A_LINE}(?:(?:\r\n|\r|\n){A_LINE})*")
"""Lines with text, one after the other."""
NUMBER = re.compile(r"[\r\n][ \t]*\d+[ \t]*(?:\r\n|\r|\n)?\Z")
LANGUAGE = re.compile(r"WEBVTT[^\r\n]*(?:\r\n|\r|\n)(?:[^\r\n]+(?:\r\n|\r|\n))*?Language:[ \t]*([\w-]+)")
LINE_BREAK = r"\r\n|\r|\n"
SPACES = re.compile(rf"[\s{CONTROL}]+")
TAG_START = re.compile(r"<(?=[/A-Za-z])|\{(?=\\)")


def escape_srt(text: str) -> str:
    """A text for SubRip, which has no escapes: what would begin a tag becomes another bracket."""
    text = SPACES.sub(" ", text).replace("-->", "→")
    return TAG_START.sub(lambda match: "‹" if match[0] == "<" else "(", text)


def escape_vtt(text: str) -> str:
    """A text for WebVTT."""
    return escape(SPACES.sub(" ", text), quote=False)


SRT = Form(Syntax(escape_srt, keeps_tags=False), r"</?[A-Za-z][^<>\r\n]*>|\{\\[^{}\r\n]*\}", LINE_BREAK)
VTT = Form(
    Syntax(escape_vtt, keeps_tags=False),
    r"</?[A-Za-z][^<>]*>|<\d[\d:.]*>|</>",
    LINE_BREAK,
    r"&(?:amp|lt|gt|nbsp|lrm|rlm|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});",
    unescape,
)


def read_srt(content: bytes, reading: Reading) -> DocumentFile:
    """A SubRip file. Raises `DragomanError` if it has text and no cue."""
    return read(content, reading, SRT)


def read_vtt(content: bytes, reading: Reading) -> DocumentFile:
    """A WebVTT file. Raises as `read_srt`."""
    return read(content, reading, VTT)


def read(content: bytes, reading: Reading, form: Form) -> Subtitles:
    """A file in one of the forms. Raises as `read_srt`."""
    text, encoding = decode_text(content, reading.name)
    cues = list(cues_of(text, form))
    if not cues and not text.startswith("WEBVTT", text.startswith("\ufeff")) and text.strip("\ufeff \t\r\n"):
        raise DragomanError(
            f"{reading.name} has no subtitles: no line has times such as 00:00:01,000 --> 00:00:02,000. "
            "--format text reads it as a text."
        )
    result = subtitles(text, cues, reading, form)
    language = LANGUAGE.match(text, text.startswith("\ufeff"))
    document = replace(result.document, encoding=encoding, language=language[1] if language else "")
    return replace(result, document=document)


def cues_of(text: str, form: Form) -> Iterator[Cue]:
    """The cues: the lines after one of times, up to a blank line; SubRip has lines also behind it."""
    headers = list(HEADER.finditer(text))
    for header, following in zip_longest(headers, headers[1:]):
        end = following.start() if following else len(text)
        if following and (number := NUMBER.search(text, max(header.end(), end - 20), end)):
            end = number.start()
        times = header.groups("0")
        for lines in LINES.finditer(text, header.end(), end):
            yield Cue(lines.start(), lines.end(), seconds(times[:4]), seconds(times[4:]))
            if form is VTT:
                break


def seconds(time: tuple[str, ...]) -> float:
    """The seconds of hours, minutes, seconds and a fraction in three digits."""
    hours, minutes, whole, thousandths = map(int, time)
    return 3600 * hours + 60 * minutes + whole + thousandths / 1000
