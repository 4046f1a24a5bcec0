"""Files that are there as a whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write a file: it gets its name once all of it is on the disk. An error leaves what was there before.

    Of a process that is killed meanwhile a hidden file stays behind, which nobody reads. Raises `OSError` with the file's name.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"{path.parent} is no folder", str(path))
    new = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        yield new
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        if error.errno and not error.filename:  # a full disk does not say of which file
            error.filename = str(path)
        raise
    finally:
        new.unlink(missing_ok=True)
