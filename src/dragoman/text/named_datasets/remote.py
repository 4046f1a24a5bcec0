"""A file on a server as a file that is read in parts: an archive's list of members, and one of them."""

import io
import urllib.request
from typing import Any

from dragoman.text.named_datasets.downloads import PARTIAL_CONTENT, extent

MAX_READ = 2**23  # bytes of all parts together; an archive of a corpus has a few members


class RemoteFile(io.RawIOBase):
    """A file on a server that answers requests for parts.

    Raises one of `DOWNLOAD_ERRORS`, also for another server, and for a reader that wants much of the file.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url, self._place, self._read, self._size = url, 0, 0, 1
        self._part(0, 1)

    def _part(self, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`."""
        self._read += end - start
        if self._read > MAX_READ:
            raise OSError(f"the list of its members has more than {MAX_READ:,} bytes")
        headers = {"Range": f"bytes={start}-{end - 1}"}
        request = urllib.request.Request(self._url, headers=headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            if response.status != PARTIAL_CONTENT:
                raise OSError("the server does not send parts of files")
            first, size = extent(response)
            part: bytes = response.read(end - start)
        if first != start or len(part) != end - start:
            raise OSError("the server sent another part of the file than was asked for")
        self._size = size or 0
        return part

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or what the file has left of it."""
        count = max(0, min(len(buffer), self._size - self._place))
        if count:
            buffer[:count] = self._part(self._place, self._place + count)
        self._place += count
        return count
