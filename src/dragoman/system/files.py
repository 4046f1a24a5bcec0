"""Files that are there as a whole or not at all."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.system.errors import DragomanError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # which do not say of which file


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Where to write a file: it gets its name once all of it is on the disk. An error leaves what was there before.

    What is no plain file, a pipe or a device, is written to at once; of a link, the file that it leads to is replaced.
    Of a process that is killed meanwhile a hidden file stays behind, which nobody reads. Raises `OSError` with the file's name.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"{path.parent} is no folder", str(path))
    new = path.with_name(f".{secrets.token_hex(8)}-{path.name}")  # processes of several machines may have one number
    try:
        yield new
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        if error.errno in FULL and not error.filename:
            error.filename = str(path)
        raise
    finally:
        new.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Where what can be made again is kept: $XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman. Raises `DragomanError` without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
    except RuntimeError as error:
        raise DragomanError("This user has no home folder to keep files in; set XDG_CACHE_HOME to a folder.") from error
