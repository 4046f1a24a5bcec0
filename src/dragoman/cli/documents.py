"""The document that `dragoman translate --document` reads: its format, and its text."""

import codecs
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dragoman.cli.console import warn
from dragoman.system.errors import DragomanError
from dragoman.text.lines import decode_bytes
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages

if TYPE_CHECKING:
    from dragoman.documents.document import Document

DocumentFormat = Literal["text", "html", "xml"]
FORMATS: dict[str, DocumentFormat] = {
    "": "text",
    ".txt": "text",
    ".md": "text",
    ".srt": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".xml": "xml",
}
"""The format of a document, by the ending of its name."""
COMMENT = re.compile("<!--.*?-->", re.DOTALL)
HTML_ENCODING = re.compile(r"""<meta[^<>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
XML_ENCODING = re.compile(r"""^\ufeff?<\?xml[^<>]*?\sencoding\s*=\s*["']([\w.:-]+)""")
ENCODING: dict[DocumentFormat, list[re.Pattern[str]]] = {
    "text": [],
    "html": [XML_ENCODING, HTML_ENCODING],
    "xml": [XML_ENCODING],
}
"""Where a document names its encoding."""


def format_of_name(path: Path, languages: Languages) -> DocumentFormat:
    """The format that the end of a document's name says. One of the model's languages ends a text: guide.en.

    Raises `DragomanError` for another ending.
    """
    ending = path.suffix.lower()
    codes = {f".{primary(code)}" for code in (languages.source, languages.target)} - {f".{UNKNOWN_LANGUAGE}"}
    if ending in codes:
        return "text"
    if ending not in FORMATS:
        raise DragomanError(
            f"{path} ends in {ending}, and --document does not know that format. It reads text (.txt, .md, "
            ".srt, no ending, or the code of one of the model's languages), HTML (.html, .htm, .xhtml) and "
            "XML (.xml). --format text, html or xml insists on one of them; text has no markup that is kept."
        )
    return FORMATS[ending]


def read_document(path: Path, file_format: DocumentFormat) -> str:
    """The text of a document.

    Raises `DragomanError` if the file is missing, as `decode_bytes`, and if it declares another encoding than
    UTF-8.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(raw.split(b"\n"), 1):
        decode_bytes(line, path, number)  # raises with the place
    text = raw.decode()
    if (encoding := declared_encoding(text, file_format)) != "utf-8":
        raise DragomanError(
            f"{path} says that its encoding is {encoding}, and translations are written in UTF-8; change the "
            "declaration to UTF-8."
        )
    return text


def declared_encoding(text: str, file_format: DocumentFormat) -> str:
    """The encoding that an XML or HTML document names in its first 1,024 characters; else UTF-8."""
    head = COMMENT.sub("", text[:1024])
    declared = next(filter(None, (pattern.search(head) for pattern in ENCODING[file_format])), None)
    declared_encoding = declared[1].lower() if declared else "utf-8"
    try:
        return "utf-8" if codecs.lookup(declared_encoding).name == "utf-8" else declared_encoding
    except LookupError:
        return declared_encoding


def parse_document(
    path: Path, text: str, file_format: DocumentFormat, language: str, keep_tags: bool
) -> "Document":
    """The document in its format. Warns of tags in plain text, unless they are kept."""
    from dragoman.documents import markup
    from dragoman.documents.plain import plain_text
    from dragoman.translation.tags import TAG

    if file_format == "html":
        return markup.html(text, language)
    if file_format == "xml":
        return markup.xml(text, language)
    if (tag := TAG.search(text)) and not keep_tags:
        warn(f"{path} is read as plain text; tags such as {tag[0]} may be lost. --keep-tags keeps them.")
    return plain_text(text, language)
