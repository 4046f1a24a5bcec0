"""The formats of files by the endings of their names. `read.py` reads them."""

from pathlib import PurePath
from typing import Literal, get_args

from dragoman.system.errors import DragomanError
from dragoman.text.records import primary
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages

DocumentFormat = Literal[
    "text",
    "html",
    "xml",
    "docx",
    "pptx",
    "xlsx",
    "odf",
    "epub",
    "po",
    "xliff",
    "json",
    "properties",
    "android",
    "strings",
    "resx",
    "table",
    "fluent",
    "yaml",
    "srt",
    "vtt",
    "ass",
    "md",
    "ipynb",
    "rst",
    "tex",
]
ARCHIVES: frozenset[DocumentFormat] = frozenset(("docx", "pptx", "xlsx", "odf", "epub"))
"""Formats that are no text, and are not written to a terminal."""
ENDINGS: dict[str, DocumentFormat] = {
    "": "text",
    ".txt": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".xml": "xml",
    ".docx": "docx",
    ".docm": "docx",
    ".dotx": "docx",
    ".epub": "epub",
    ".odt": "odf",
    ".ott": "odf",
    ".odp": "odf",
    ".ods": "odf",
    ".pptx": "pptx",
    ".pptm": "pptx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".po": "po",
    ".pot": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".json": "json",
    ".arb": "json",
    ".properties": "properties",
    ".strings": "strings",
    ".resx": "resx",
    ".csv": "table",
    ".tsv": "table",
    ".ftl": "fluent",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".srt": "srt",
    ".vtt": "vtt",
    ".ass": "ass",
    ".ssa": "ass",
    ".md": "md",
    ".markdown": "md",
    ".ipynb": "ipynb",
    ".rst": "rst",
    ".tex": "tex",
}
"""The format of a file by the ending of its name, in lower case."""
OTHERS = {
    ".pdf": "a PDF; translate the document that it was made from",
    ".doc": "of an old program; save it as .docx",
    ".xls": "of an old program; save it as .xlsx",
    ".ppt": "of an old program; save it as .pptx",
    ".rtf": "an RTF file; save it as .docx",
}
"""What files with other endings are, and what to do with them."""


def format_of_name(path: PurePath, languages: Languages, option: str = "--format") -> DocumentFormat:
    """The format that the end of a file's name says. One of the model's languages ends a text: guide.en.

    Raises `DragomanError` for another ending. `option` is what gives a file another format, if anything does.
    """
    ending = path.suffix.lower()
    codes = {f".{primary(code)}" for code in (languages.source, languages.target)} - {f".{UNKNOWN_LANGUAGE}"}
    if ending in codes:
        return "text"
    if ending in OTHERS:
        raise DragomanError(f"{path} is not read, since it is {OTHERS[ending]}.")
    if ending not in ENDINGS:
        names = ", ".join(get_args(DocumentFormat))
        raise DragomanError(
            f"{path} ends in {ending}, and that format is not known. Known are {' '.join(ENDINGS).strip()}; "
            "a name without an ending, or with the code of one of the model's languages, is one of a text."
            + (f" {option} insists on one of {names}; text has no markup that is kept." if option else "")
        )
    return ENDINGS[ending]
