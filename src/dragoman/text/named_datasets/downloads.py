"""Downloads, with their progress: a sentence at the start, and a bar."""

import http.client
import logging
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from dragoman.system.files import atomic_write
from dragoman.system.terminal import shows_bars

logger = logging.getLogger(__name__)
DOWNLOAD_ERRORS = (urllib.error.URLError, http.client.HTTPException, OSError)


@contextmanager
def opened(url: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open a URL: yields its content and its length in bytes, which is None if unknown.

    Raises one of `DOWNLOAD_ERRORS`.
    """
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with urllib.request.urlopen(url, timeout=60) as response:  # noqa: S310
        length = response.headers.get("Content-Length")
        size = None if length is None else int(length)
        logger.info(f"Downloading {url}{'' if size is None else f' ({size / 2**20:,.1f} MiB)'}.")
        with Progress(*columns, console=console, transient=True, disable=not shows_bars(console)) as bar:
            task = bar.add_task(url.rsplit("/", 1)[1], total=size)
            yield response if size is None else bar.wrap_file(response, task_id=task), size


def download(url: str, path: Path) -> None:
    """Download a file as it is. Raises one of `DOWNLOAD_ERRORS` if that fails or ends early."""
    with atomic_write(path) as new, opened(url) as (content, size), new.open("wb") as copy:
        shutil.copyfileobj(content, copy)
        if size is not None and copy.tell() != size:
            raise http.client.IncompleteRead(b"", size - copy.tell())
