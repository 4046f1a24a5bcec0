"""Archives of corpora: fetched, verified, and read a member at a time. Nothing is unpacked to a path."""

import gzip
import hashlib
import html
import re
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.system.errors import DragomanError, reason
from dragoman.text.compression import GZIP_ERRORS
from dragoman.text.lines import open_bytes

SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>")
SPOKEN = re.compile(r"</?(?:title|description)>")
TAGGED = re.compile(r"<(\w+)>.*</\1>")
SPACES = str.maketrans("\0\r\n", "   ")
"""What stands in a line for characters that no line has."""


@dataclass(frozen=True)
class Archive:
    """A tar file that a publisher offers, plain or compressed."""

    url: str
    sha256: str | None = None
    """Hash of the file. If None, the hash of the first copy is recorded, and later copies are compared."""

    @property
    def name(self) -> str:
        """The file's name in a dataset's folder."""
        return self.url.rsplit("/", 1)[1]


def text_hash(path: Path) -> str:
    """SHA-256 of a file's text, decompressed. Raises `DragomanError` for a damaged gzip file."""
    try:
        with open_bytes(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except DragomanError as error:
        raise DragomanError(f"{error} Delete it and try again.") from error


def read_member(archive: Path, name: str) -> Iterator[bytes]:
    """The lines of a member of a tar file; those of one whose name ends in .gz are decompressed.

    Raises `DragomanError` if the archive is damaged or truncated, or has no such file.
    """
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                if member.isfile() and member.name.removeprefix("./") == name:
                    stream = tar.extractfile(member)
                    assert stream is not None
                    yield from gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
                    return
    except (tarfile.TarError, *GZIP_ERRORS, OSError) as error:
        raise DragomanError(
            f"{archive} is not a complete archive: {reason(error)}. Delete it to download it again."
        ) from error
    raise DragomanError(
        f"{archive} has no file {name}: it is not the archive of that name that was expected."
    )


# ---- from a member to sentences


def plain_lines(raw: Iterable[bytes]) -> Iterator[str]:
    """A sentence a line. Only a line feed ends one; NUL, carriage returns and wrong UTF-8 are replaced."""
    for line in raw:
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace").translate(SPACES)


def segments(raw: Iterable[bytes]) -> Iterator[str]:
    """The segments of a test set in SGML or XML, one per line in the file, with their entities resolved."""
    for line in plain_lines(raw):
        for segment in SEGMENT.findall(line):
            yield html.unescape(segment).translate(SPACES).strip()


def talk_lines(raw: Iterable[bytes]) -> Iterator[str]:
    """The sentences of transcribed talks; of what is said about a talk, the title and the description."""
    for line in plain_lines(raw):
        text = SPOKEN.sub("", line).strip()
        if not TAGGED.fullmatch(text):
            yield text
