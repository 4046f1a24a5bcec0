"""Reading and checking lines of text files and of standard input.

Only a line feed ends a line. The carriage return of a CRLF line end is removed. Files whose names end in .gz
or .zst are decompressed, and so is standard input that is gzip.
"""

import codecs
import gzip
import hashlib
import io
import sys
import unicodedata
from collections.abc import Iterator
from itertools import accumulate, islice, pairwise, zip_longest
from pathlib import Path
from typing import BinaryIO

from dragoman.system.errors import DragomanError
from dragoman.system.readers import open_file
from dragoman.text.compression import GZIP_ERRORS, open_compressed

MAX_LINE = 2**24  # bytes
STANDARD_INPUT = "Standard input"
GZIP = b"\x1f\x8b"
BINARY = {
    GZIP: "compressed with gzip; decompress it, or end the name of a file of lines in .gz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; decompress it, or end the name of a file of lines in .zst",
    b"PK\x03\x04": "a zip file; dragoman translate --document reads office files named .docx, .odt, …",
    b"%PDF-": "a PDF file; export it as text or HTML",
    codecs.BOM_UTF16_LE: "UTF-16 or UTF-32; convert it, with iconv for example",
    codecs.BOM_UTF16_BE: "UTF-16; convert it, with iconv for example",
}
"""What a file is that begins with these bytes, and what to do."""


def open_bytes(path: Path) -> io.BufferedReader:
    """Open a file to read its bytes, decompressed.

    Raises `DragomanError` if it cannot be opened; reading it raises one if it cannot be read or is damaged.
    """
    try:
        return open_compressed(path) if path.suffix in {".gz", ".zst"} else open_file(path)
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror or error}.") from error


def decode_bytes(line: bytes, place: Path | str, number: int) -> str:
    """Decode line `number` (from 1) of a file.

    Raises `DragomanError` with file, line and byte for a NUL, invalid UTF-8, and a file that begins as one
    that is not text.
    """
    if number == 1 and (kind := next((BINARY[start] for start in BINARY if line.startswith(start)), None)):
        raise DragomanError(f"{place}, line 1, byte 1: this is {kind}.")
    if (offset := line.find(b"\0")) >= 0:
        raise DragomanError(
            f"{place}, line {number}, byte {offset + 1}: a NUL byte. Is this a binary file, or UTF-16?"
        )
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DragomanError(
            f"{place}, line {number}, byte {error.start + 1}: not UTF-8 (0x{line[error.start]:02x}). Convert "
            "the file, with iconv for example."
        ) from error


def decode_line(raw: bytes, place: Path | str, number: int) -> str:
    """Decode line `number` (from 1) of a file, without its LF or CRLF and without a byte order mark.

    Raises `DragomanError` as `decode_bytes`, and for a carriage return inside the line.
    """
    line = raw.removesuffix(b"\n").removesuffix(b"\r")
    text = decode_bytes(line, place, number)
    if (offset := line.find(b"\r")) >= 0:
        raise DragomanError(
            f"{place}, line {number}, byte {offset + 1}: a carriage return inside the line; remove it "
            "from the file."
        )
    return text.removeprefix("\ufeff") if number == 1 else text


def raw_lines(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Yield the undecoded lines from byte `offset` on, with their line feeds.

    Raises `DragomanError` for a file that cannot be opened, a damaged compressed file, or a line of
    `MAX_LINE` bytes, to which a small compressed file can grow.
    """
    with open_bytes(path) as file:
        if offset:
            file.seek(offset)
        yield from limited_lines(file, path)


def limited_lines(file: BinaryIO | gzip.GzipFile, place: Path | str) -> Iterator[bytes]:
    """The lines of a file. Raises `DragomanError` for a line of `MAX_LINE` bytes."""
    while line := file.readline(MAX_LINE):
        if len(line) == MAX_LINE:
            raise DragomanError(f"{place} has a line of {MAX_LINE:,} bytes; a line holds one sentence.")
        yield line


def standard_input_lines() -> Iterator[bytes]:
    """Yield the undecoded lines of standard input, with their line feeds. Raises as `raw_lines`."""
    stream = sys.stdin.buffer
    try:
        is_packed = isinstance(stream, io.BufferedReader) and stream.peek(len(GZIP)).startswith(GZIP)
        yield from limited_lines(gzip.GzipFile(fileobj=stream) if is_packed else stream, STANDARD_INPUT)
    except GZIP_ERRORS as error:
        raise DragomanError(
            f"{STANDARD_INPUT} is not a complete gzip file: it is damaged or cut off."
        ) from error


def read_lines(path: Path, offset: int = 0, first_line: int = 1) -> Iterator[str]:
    """Yield the decoded lines from byte `offset` on, where line `first_line` (from 1) begins.

    Raises `DragomanError` for an empty file, and where `raw_lines` and `decode_line` do.
    """
    number = first_line - 1
    for number, raw in enumerate(raw_lines(path, offset), first_line):
        yield decode_line(raw, path, number)
    if number == 0:
        raise DragomanError(f"{path} is empty; it has to hold a line for each sentence.")


def read_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yield line n of both files as a pair.

    Raises `DragomanError` with both counts if one file has more lines than the other, and where `read_lines`
    does.
    """
    pairs = zip_longest(read_lines(source), read_lines(target))
    for index, (source_line, target_line) in enumerate(pairs):
        if source_line is None or target_line is None:
            total = index + 1 + sum(1 for _ in pairs)
            counts = (index, total) if source_line is None else (total, index)
            raise DragomanError(
                f"{source} has {counts[0]:,} line{'s' if counts[0] != 1 else ''} and {target} has "
                f"{counts[1]:,}. Line n of one has to belong to line n of the other."
            )
        yield source_line, target_line


def line_offsets(path: Path, step: int) -> list[int]:
    """The byte offsets of lines 0, `step`, 2 · `step`, … of a file that is not compressed."""
    offsets = accumulate(map(len, raw_lines(path)), initial=0)
    return [start for start, _ in islice(pairwise(offsets), 0, None, step)]


def line_hash(line: str) -> int:
    """64 bits of BLAKE2b of a line in NFC, without white space around it: the same on every machine."""
    text = unicodedata.normalize("NFC", line.strip())
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
