"""Corpora as they are published: zip and tar files with two texts (Moses), or a file that has both sides.

They are untrusted. Nothing is unpacked under a name that a package gives, and what it holds is limited by its
size.
"""

import gzip
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import IO

from dragoman.system.errors import DragomanError, reason
from dragoman.system.wording import counted, shown
from dragoman.text.compression import GZIP_ERRORS
from dragoman.text.formats import read_parallel
from dragoman.text.mixture import is_parallel
from dragoman.text.named_datasets.archives import plain_lines
from dragoman.text.settings import Languages

MAX_RATIO = 200  # of the decompressed bytes of text to the compressed ones
MAX_SMALL = 2**20  # bytes that may be in a package of any size
MAX_LINE = 2**24  # bytes of a line, as of other text
MAX_README = 2**16
PACKAGE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    NotImplementedError,  # of a compression that Python lacks
    RuntimeError,  # of an encrypted member
    *GZIP_ERRORS,
    zlib.error,
)
BOTH_SIDES = tuple(f".{kind}{packed}" for kind in ("tmx", "tsv", "jsonl") for packed in ("", ".gz"))
LISTED = 10  # members that an error names


@dataclass(frozen=True)
class Member:
    """A file in a package."""

    name: str
    open: Callable[[], IO[bytes]]


def read_package(path: Path, codes: tuple[str, str], scratch: Path) -> Iterator[tuple[str, str]]:
    """The pairs of a corpus whose package is at `path`, in two languages as the package writes their codes.

    `scratch` is a folder for files that have both sides. Raises `DragomanError` for a package that is
    damaged, has no such corpus, or is not to be trusted.
    """
    try:
        if is_parallel(path):
            check_ratio(path)
            yield from read_parallel(path, languages_of(codes))
            return
        with members_of(path) as members:
            sides = [find_side(members, code) for code in codes]
            both = [member for member in members if member.name.endswith(BOTH_SIDES)]
            if all(sides):
                yield from moses_pairs(path, [side for side in sides if side is not None])
            elif len(both) == 1:
                copy = scratch / f"corpus{''.join(Path(both[0].name).suffixes[-2:])}"
                with both[0].open() as packed, copy.open("wb") as file:
                    shutil.copyfileobj(packed, file)
                check_ratio(copy)
                yield from read_parallel(copy, languages_of(codes))
            else:
                names = ", ".join(shown(member.name) for member in members[:LISTED])
                raise DragomanError(
                    f"{path} has no text in {codes[0]} and {codes[1]}: it has "
                    f"{counted(len(members), 'file')}{f', {names}' if names else ''}. A file for each "
                    "language ends in its code, one of both in .tmx, .tsv or .jsonl."
                )
    except PACKAGE_ERRORS as error:
        raise DragomanError(
            f"{path} is not a complete package: {reason(error)}. Delete it to download it again."
        ) from error


def languages_of(codes: tuple[str, str]) -> Languages:
    """The languages of a package's codes."""
    return Languages(*(code.replace("_", "-") for code in codes))


@contextmanager
def members_of(path: Path) -> Iterator[list[Member]]:
    """The files in a package.

    Raises `DragomanError` for names that lead outside and for too many bytes, and one of `PACKAGE_ERRORS` for
    a package that is damaged.
    """
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as package:
            infos = [info for info in package.infolist() if not info.is_dir()]
            check_names(path, [info.filename for info in infos])
            for info in infos:
                check_size(path, info.file_size, info.compress_size)
            yield [Member(info.filename, partial(package.open, info)) for info in infos]
        return
    check_ratio(path)
    with tarfile.open(path, "r:" if path.suffix == ".tar" else "r:gz") as package:
        entries = [entry for entry in package if entry.isfile()]
        check_names(path, [entry.name for entry in entries])
        yield [Member(entry.name, partial(opened_entry, package, entry)) for entry in entries]


def opened_entry(package: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    """A regular file of a tar file, open."""
    stream = package.extractfile(entry)
    assert stream is not None
    return stream


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise `DragomanError` for a name that leads outside of a folder."""
    for name in names:
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or name[1:2] == ":":
            raise DragomanError(
                f"{path} has a file named {shown(name)}, which leads outside of a folder: no corpus has such "
                "names. Nothing was unpacked; delete it."
            )


def check_ratio(path: Path) -> None:
    """Raise `DragomanError` for a gzip file that holds far more than text of its size does."""
    if path.suffix not in {".gz", ".tgz"}:
        return
    with gzip.open(path) as file:
        packed, size = path.stat().st_size, 0
        while chunk := file.read(2**20):
            size += len(chunk)
            check_size(path, size, packed)


def check_size(path: Path, size: int, packed: int) -> None:
    """Raise `DragomanError` for so many bytes, which so few hold compressed."""
    if size > MAX_SMALL + MAX_RATIO * packed:
        raise DragomanError(
            f"{path} holds {size:,} bytes or more in {packed:,}, and text is never compressed that far: it "
            "is made to fill the disk. Nothing was unpacked; delete it."
        )


def find_side(members: Sequence[Member], code: str) -> Member | None:
    """The only file whose name ends in a language's code."""
    sides = [member for member in members if PurePosixPath(member.name).name.endswith(f".{code}")]
    return sides[0] if len(sides) == 1 else None


def moses_pairs(path: Path, sides: Sequence[Member]) -> Iterator[tuple[str, str]]:
    """The pairs of two files.

    Raises `DragomanError` for different numbers of lines, and for a line that is too long.
    """
    with sides[0].open() as sources, sides[1].open() as targets:
        lines = (plain_lines(bounded_lines(path, stream)) for stream in (sources, targets))
        for number, (source, target) in enumerate(zip_longest(*lines), 1):
            if source is None or target is None:
                raise DragomanError(
                    f"{sides[0].name} and {sides[1].name} in {path} have different numbers of lines: one "
                    f"ends before line {number}. Delete the package to download it again."
                )
            yield source, target


def bounded_lines(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, none of which has to be in memory before it is refused."""
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise DragomanError(f"{path} has a line of more than {MAX_LINE:,} bytes, which is no sentence.")
        yield line


def readme(package: zipfile.ZipFile) -> str:
    """What a zip file's README says, or ""; of a long one, the beginning. Raises one of `PACKAGE_ERRORS`."""
    if "README" not in package.namelist():
        return ""
    with package.open("README") as file:
        return file.read(MAX_README).decode("utf-8", "replace")
