"""A file in any of the formats."""

from collections.abc import Callable
from pathlib import Path

from dragoman.documents import (
    android,
    apple_strings,
    ass,
    docx,
    epub,
    fluent,
    json_strings,
    markdown,
    markup,
    notebook,
    odf,
    plain,
    po,
    pptx,
    properties,
    resx,
    rst,
    srt,
    table,
    tex,
    xliff,
    xlsx,
    yaml_strings,
)
from dragoman.documents.file import DocumentFile, Reading
from dragoman.documents.formats import DocumentFormat
from dragoman.system.errors import DragomanError


def read_xml(content: bytes, reading: Reading) -> DocumentFile:
    """An XML file, which may be one of Android's. Raises as `markup.read_xml`."""
    reader = android.read if android.is_android(content) else markup.read_xml
    return reader(content, reading)


READERS: dict[DocumentFormat, Callable[[bytes, Reading], DocumentFile]] = {
    "text": plain.read,
    "html": markup.read_html,
    "docx": docx.read,
    "odf": odf.read,
    "epub": epub.read,
    "pptx": pptx.read,
    "xlsx": xlsx.read,
    "xml": read_xml,
    "po": po.read,
    "xliff": xliff.read,
    "json": json_strings.read,
    "properties": properties.read,
    "android": android.read,
    "strings": apple_strings.read,
    "resx": resx.read,
    "table": table.read,
    "fluent": fluent.read,
    "yaml": yaml_strings.read,
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
