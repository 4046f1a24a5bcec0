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
    ".dotm": "docx",
    ".epub": "epub",
    ".odt": "odf",
    ".ott": "odf",
    ".odp": "odf",
    ".otp": "odf",
    ".ods": "odf",
    ".ots": "odf",
    ".pptx": "pptx",
    ".pptm": "pptx",
    ".ppsx": "pptx",
    ".ppsm": "pptx",
    ".potx": "pptx",
    ".potm": "pptx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".xltx": "xlsx",
    ".xltm": "xlsx",
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
ORIGINAL = "translate the document that it was made from"
OTHERS = {
    ".pdf": f"a PDF; {ORIGINAL}",
    ".doc": "of an old program; save it as .docx",
    ".dot": "of an old program; save it as .dotx",
    ".xls": "of an old program; save it as .xlsx",
    ".ppt": "of an old program; save it as .pptx",
    ".pps": "of an old program; save it as .ppsx",
    ".xlsb": "binary; save it as .xlsx",
    ".rtf": "an RTF file; save it as .docx",
    ".fodt": "one of OpenDocument without an archive; save it as .odt",
    ".fodp": "one of OpenDocument without an archive; save it as .odp",
    ".fods": "one of OpenDocument without an archive; save it as .ods",
    ".pages": "one of Pages; export it as .docx",
    ".numbers": "one of Numbers; export it as .xlsx",
    ".key": "one of Keynote; export it as .pptx",
    ".idml": "one of InDesign; export its text as .docx or .html",
    ".sdlxliff": f"XLIFF of Trados, whose states of segments (sdl:seg) would not follow; {ORIGINAL}",
    ".mqxliff": "XLIFF of memoQ, whose states (mq:status) would not follow; export plain XLIFF (.xlf)",
    ".mxliff": f"XLIFF of Phrase, whose tags are codes such as {{1>; {ORIGINAL}",
    ".txlf": f"XLIFF of Wordfast, whose states would not follow; {ORIGINAL}",
    ".xlz": "an archive with XLIFF; unpack it, and translate the .xlf in it",
    ".sdlppx": f"a package of Trados; {ORIGINAL}",
    ".mqxlz": "a package of memoQ; export plain XLIFF (.xlf)",
    ".ttx": f"one of Trados TagEditor; {ORIGINAL}",
    ".tmx": "a translation memory, which has translations already; train and adapt learn from it",
    ".tbx": "a list of terms; translate uses it with --glossary",
    ".xcstrings": "a String Catalog of Xcode; export it as XLIFF from Xcode, and import that again",
    ".ts": "of Qt Linguist, or no text at all; convert it to .po or .xlf with lconvert, and back",
    ".mo": "compiled; translate the .po that it was made from",
    ".mobi": "a book of Kindle; convert it to .epub",
    ".azw3": "a book of Kindle; convert it to .epub",
    ".sub": "of subtitles in a format that is not known; convert it to .srt",
    ".sbv": "of subtitles in a format that is not known; convert it to .srt or .vtt",
    ".ttml": "of subtitles in a format that is not known; convert it to .srt or .vtt",
    ".dfxp": "of subtitles in a format that is not known; convert it to .srt or .vtt",
    ".zip": "an archive; unpack it, and translate the files in it",
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
