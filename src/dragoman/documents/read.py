"""A file in any of the formats."""

from collections.abc import Callable
from pathlib import Path

from dragoman.documents import ass, markdown, markup, notebook, plain, rst, srt, tex
from dragoman.documents.file import DocumentFile, Reading
from dragoman.documents.formats import DocumentFormat
from dragoman.system.errors import DragomanError

READERS: dict[DocumentFormat, Callable[[bytes, Reading], DocumentFile]] = {
    "text": plain.read,
    "html": markup.read_html,
    "xml": markup.read_xml,
    "srt": srt.read_srt,
    "vtt": srt.read_vtt,
    "ass": ass.read,
    "md": markdown.read,
    "ipynb": notebook.read,
    "rst": rst.read,
    "tex": tex.read,
}


def read_file(path: Path, file_format: DocumentFormat, reading: Reading) -> DocumentFile:
    """A file in a format. Raises `DragomanError` if it cannot be read."""
    try:
        return READERS[file_format](path.read_bytes(), reading)
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror}.") from error
