"""Downloads, with their progress: a sentence at the start, and a bar. An interrupted one goes on later."""

import http.client
import logging
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from dragoman.system.files import DISK_FULL, sync
from dragoman.system.terminal import shows_bars

logger = logging.getLogger(__name__)
DOWNLOAD_ERRORS = (urllib.error.URLError, http.client.HTTPException, OSError)
RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 206, 416


@dataclass(frozen=True)
class Download:
    """What a server sends."""

    content: BinaryIO
    start: int
    """The byte of the file that the content begins with."""
    size: int | None
    """The bytes of the whole file; None if unknown."""
    version: str
    """Its ETag, or the time of its last change, of which one belongs to one state of the file; "" if the
    server sends neither."""


@contextmanager
def opened(url: str, headers: Mapping[str, str] | None = None) -> Iterator[Download]:
    """Open a URL. Raises one of `DOWNLOAD_ERRORS`."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    request = urllib.request.Request(url, headers=dict(headers or {}))  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        start, size = extent(response)
        rest = "" if start == 0 else f", from byte {start:,} on"
        logger.info(f"Downloading {url}{'' if size is None else f' ({size / 2**20:,.1f} MiB{rest})'}.")
        tag = response.headers.get("ETag", "")
        version = response.headers.get("Last-Modified", "") if tag.startswith("W/") or not tag else tag
        with Progress(*columns, console=console, transient=True, disable=not shows_bars(console)) as bar:
            task = bar.add_task(url.rsplit("/", 1)[1], total=size, completed=start)
            content = response if size is None else bar.wrap_file(response, task_id=task)
            yield Download(content, start, size, version)


def extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """The first byte of the file that a response has, and the bytes of the whole file.

    Raises `http.client.HTTPException` for part of a file that the server does not describe.
    """
    length = response.headers.get("Content-Length")
    if response.status != PARTIAL_CONTENT:  # None of a file: URL
        return 0, None if length is None else int(length)
    if not (match := RANGE.fullmatch(response.headers.get("Content-Range", ""))):
        raise http.client.HTTPException("the server does not say which part of the file it sends")
    return int(match[1]), int(match[2])


def download(url: str, path: Path) -> None:
    """Download a file as it is. What an interrupted download has left is used if the file is the same.

    Raises one of `DOWNLOAD_ERRORS` if it fails or ends early, with the file's name if the disk is full.
    """
    part, version = (path.with_name(f".{path.name}.{kind}") for kind in ("part", "version"))
    start = part.stat().st_size if part.exists() and version.exists() else 0
    is_complete = False
    headers = {"Range": f"bytes={start}-", "If-Range": version.read_text()} if start else {}
    try:
        with opened(url, headers) as sent, part.open("ab") as copy:
            if sent.start not in (0, start):
                raise http.client.HTTPException(
                    "the server sends another part of the file than was asked for"
                )
            copy.truncate(sent.start)
            copy.seek(sent.start)
            if sent.version:
                version.write_text(sent.version)
            else:
                version.unlink(missing_ok=True)
            shutil.copyfileobj(sent.content, copy)
            if sent.size is not None and copy.tell() != sent.size:
                raise http.client.IncompleteRead(b"", sent.size - copy.tell())
            is_complete = True
    except urllib.error.HTTPError as error:
        if error.code != RANGE_NOT_SATISFIABLE or not start:
            raise
        part.unlink()  # the file is another one, which is shorter
        download(url, path)
        return
    except OSError as error:
        if error.errno in DISK_FULL:
            error.filename = str(path)
        raise
    finally:
        if not version.exists() and not is_complete:
            part.unlink(missing_ok=True)
    sync(part)
    part.replace(path)
    version.unlink(missing_ok=True)


def raise_if_disk_full(error: Exception) -> None:
    """Raise an error of a disk that is full: it is no failure of the server."""
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        raise error
