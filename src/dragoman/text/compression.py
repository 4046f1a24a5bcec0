"""Files compressed with gzip or zstd, read as what they hold."""

import gzip
import io
import zlib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.system.errors import DragomanError, reason

GZIP_ERRORS = (gzip.BadGzipFile, EOFError, zlib.error)  # of a truncated or damaged file
BUFFER = 2**16


def plain_name(name: str) -> str:
    """A file's name without the ending of its compression."""
    return name.removesuffix(".gz").removesuffix(".zst")


class Decompressed(io.RawIOBase):
    """The decompressed bytes of a file. A damaged or truncated file raises `DragomanError`."""

    def __init__(self, path: Path, file: Any, errors: tuple[type[Exception], ...]) -> None:
        """`file` is open, and raises `errors` where it is damaged."""
        super().__init__()
        self.path, self._file, self._errors = path, file, errors

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises `DragomanError` for a damaged file, and one that cannot be read."""
        try:
            return self._file.readinto(buffer)
        except self._errors as error:
            kind = "gzip" if self.path.suffix == ".gz" else "zstd"
            raise DragomanError(
                f"{self.path} is not a complete {kind} file: it is damaged, cut off, or not compressed."
            ) from error
        except OSError as error:
            raise DragomanError(f"{self.path} cannot be read: {reason(error)}.") from error

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def open_compressed(path: Path) -> io.BufferedReader:
    """Open a .gz or .zst file to read what it holds.

    Raises `OSError` if it cannot be opened, and `DragomanError` if zstd is needed and not installed.
    """
    if path.suffix == ".gz":
        decompressed = Decompressed(path, gzip.GzipFile(path), GZIP_ERRORS)
    else:
        zstd = import_zstd(path)
        decompressed = Decompressed(path, zstd.ZstdFile(path), (zstd.ZstdError, EOFError))
    return io.BufferedReader(decompressed, BUFFER)


def import_zstd(path: Path) -> Any:
    """Python's own module, of 3.14 and later, or its backport.

    Raises `DragomanError` with the name of the file that needs it.
    """
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    raise DragomanError(
        f"{path} is compressed with zstd, which this Python cannot read: pip install 'dragoman[zstd]', or "
        "decompress the file with zstd -d."
    )
