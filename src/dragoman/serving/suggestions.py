"""Better translations that people suggest, kept in a file of JSON lines that `dragoman train` reads.

A line has the two texts by their languages, and the time: {"en": "One.", "de": "Eins.", "time": 1764547200}.
"""

import os
import time
from pathlib import Path

import orjson
from filelock import FileLock

from dragoman.serving.errors import ApiError, not_written
from dragoman.system.errors import DragomanError, reason
from dragoman.system.files import beside
from dragoman.text.formats import UNWRITABLE
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages

MAX_TEXT = 10_000  # characters of a side
MODE = 0o600  # of the file: it has texts of people


def check_file(path: Path) -> None:
    """Raise `DragomanError` if nothing can be added to a file."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, MODE))
    except OSError as error:
        raise DragomanError(
            f"{path} cannot be written: {reason(error)}. Give another file for --suggestions."
        ) from error


def add_suggestion(path: Path, max_bytes: int, source: str, target: str, languages: Languages) -> None:
    """Add a pair of texts to the file, which several processes share.

    Raises `ApiError`: 400 for a text that no file of text can have, 413 for one that is too long, 403 if the
    file is full, and 503 if it cannot be written.
    """
    for text in (source, target):
        if len(text) > MAX_TEXT:
            raise ApiError(413, f"A text has {len(text):,} characters, and {MAX_TEXT:,} are allowed.")
        if UNWRITABLE.search(text):
            raise ApiError(400, "A text has a NUL or a lone surrogate; leave it out.")
    line = line_of(source, target, languages)
    try:
        with FileLock(beside(path, ".{}.lock")):
            add_line(path, max_bytes, line)
    except OSError as error:
        raise not_written("suggestions", error) from error


def add_line(path: Path, max_bytes: int, line: bytes) -> None:
    """Add a line to the file, which is locked. Raises `ApiError` 403 if it is full, and `OSError`."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, MODE)
    try:
        size = os.fstat(file).st_size
        if size + len(line) > max_bytes:
            raise ApiError(403, "This server takes no more suggestions: its file is full.")
        try:
            append(file, line, size)
        except OSError:
            os.truncate(file, size)  # half a line would make the file unreadable
            raise
    finally:
        os.close(file)


def line_of(source: str, target: str, languages: Languages) -> bytes:
    """A suggestion as a line; without two different languages its sides are named source and target."""
    codes = languages.source, languages.target
    if codes[0] == codes[1] or UNKNOWN_LANGUAGE in codes:
        codes = "source", "target"
    texts = {codes[0]: source, codes[1]: target}
    return orjson.dumps({**texts, "time": int(time.time())}, option=orjson.OPT_APPEND_NEWLINE)


def append(file: int, line: bytes, size: int) -> None:
    """Write a line at the end of a file, of `size` bytes. Raises `OSError`."""
    os.lseek(file, max(0, size - 1), os.SEEK_SET)
    if os.read(file, 1) not in (b"", b"\n"):  # somebody has edited it
        line = b"\n" + line
    while line:
        line = line[os.write(file, line) :]
    os.fsync(file)
