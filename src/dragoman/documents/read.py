"""A file in any of the formats."""

import json
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
from dragoman.documents.file import DocumentFile, EncodedFile, Reading, decode_as
from dragoman.documents.formats import ARCHIVES, DocumentFormat
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


def character_reference(character: str) -> str:
    """A character as HTML and XML can write it."""
    return f"&#{ord(character)};"


def unicode_escape(character: str) -> str:
    r"""A character as JSON and properties can write it: \uXXXX, twice for one outside of the first plane."""
    return json.dumps(character)[1:-1]


ESCAPES: dict[DocumentFormat, Callable[[str], str]] = {
    "html": character_reference,
    "xml": character_reference,
    "xliff": character_reference,
    "android": character_reference,
    "resx": character_reference,
    "vtt": character_reference,
    "json": unicode_escape,
    "ipynb": unicode_escape,
    "properties": unicode_escape,
    "strings": lambda character: unicode_escape(character).replace("u", "U"),
}
"""How a format writes a character that the file's encoding lacks; the others have no way."""


def read_file(path: Path, file_format: DocumentFormat, reading: Reading) -> DocumentFile:
    """A file in a format. Raises `DragomanError` if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror}.") from error
    return read_bytes(content, file_format, reading)


def read_bytes(content: bytes, file_format: DocumentFormat, reading: Reading) -> DocumentFile:
    """The bytes of a file in a format. Raises as `read_file`."""
    if reading.encoding is None:
        return READERS[file_format](content, reading)
    if file_format in ARCHIVES:
        raise DragomanError(f"{reading.name} is an archive, which has no encoding; give none.")
    text, encoding = decode_as(content, reading.name, reading.encoding)
    document = READERS[file_format](text.encode(), reading)
    return EncodedFile(document, encoding, ESCAPES.get(file_format))
