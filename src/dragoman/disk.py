"""Files that are there as a whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import DragomanError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write a file: it gets its name once all of it is on the disk. An error leaves what was there before.

    Of a process that is killed meanwhile a hidden file stays behind, which nobody reads. Raises `DragomanError` where there is no
    such folder.
    """
    if not path.parent.is_dir():
        raise DragomanError(f"{path} cannot be written: {path.parent} is no folder. Make it first.")
    new = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        yield new
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
