"""Lines of text files, checked as they are read.

Only a line feed ends a line; files ending in .gz are unpacked on the way.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from dragoman.system.errors import DragomanError

PACKING_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)


def open_bytes(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """The file's bytes, unpacked. Raises `DragomanError` if it cannot be opened."""
    try:
        return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror or error}.") from error


def decode_line(raw: bytes, path: Path, number: int, strip_carriage_returns: bool) -> str:
    """One line without its end.

    Raises `DragomanError` with file, line and byte for invalid UTF-8, a NUL or a carriage return.
    """
    line = raw.removesuffix(b"\n")
    if strip_carriage_returns:
        line = line.removesuffix(b"\r")
    place = f"{path}, line {number}"
    if (at := line.find(b"\0")) >= 0:
        raise DragomanError(
            f"{place}, byte {at + 1}: a NUL, which no text has. Is this a binary file, or UTF-16?"
        )
    if (at := line.find(b"\r")) >= 0:
        raise DragomanError(
            f"{place}, byte {at + 1}: a carriage return inside the line; remove it from the file."
        )
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DragomanError(
            f"{place}, byte {error.start + 1}: not UTF-8 (0x{line[error.start]:02x}). Convert the file, "
            "with iconv for example."
        ) from error


def raw_lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """Lines from byte `start` on, with their line feeds, whatever they hold.

    Raises `DragomanError` for a damaged gzip file.
    """
    with open_bytes(path) as file:
        if start:
            file.seek(start)
        try:
            yield from file
        except PACKING_ERRORS as error:
            raise DragomanError(f"{path} is not a complete gzip file: {error}") from error


def read_lines(
    path: Path, strip_carriage_returns: bool = True, start: int = 0, first: int = 1
) -> Iterator[str]:
    """Lines from byte `start` on, which is line number `first`.

    Raises `DragomanError` as `decode_line`, and for an empty file.
    """
    number = first - 1
    for number, raw in enumerate(raw_lines(path, start), first):
        yield decode_line(raw, path, number, strip_carriage_returns)
    if number == 0:
        raise DragomanError(f"{path} is empty; it has to hold one sentence a line.")


def read_pairs(source: Path, target: Path, strip_carriage_returns: bool = True) -> Iterator[tuple[str, str]]:
    """Lines of both files side by side.

    Raises `DragomanError` with both counts where one has more than the other.
    """
    lines = zip_longest(
        read_lines(source, strip_carriage_returns), read_lines(target, strip_carriage_returns)
    )
    for count, (one, other) in enumerate(lines):
        if one is None or other is None:
            longer = count + 1 + sum(1 for _ in lines)
            counts = (count, longer) if one is None else (longer, count)
            raise DragomanError(
                f"{source} has {counts[0]} lines and {target} has {counts[1]}. Line n of one has to belong "
                "to line n of the other."
            )
        yield one, other


def line_starts(path: Path, every: int) -> list[int]:
    """The bytes at which lines 0, every, 2 · every … of a plain file begin."""
    starts, position = [], 0
    with path.open("rb") as file:
        for number, raw in enumerate(file):
            if number % every == 0:
                starts.append(position)
            position += len(raw)
    return starts
