"""Translation memories in TMX 1.1 to 1.4b, read a unit at a time in bounded memory.

The file is untrusted input. A DTD within it, entities and references to other files are refused. Only the
usual line that names TMX's own DTD is allowed, and that DTD is not read.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown
from dragoman.text.lines import open_bytes
from dragoman.text.records import Record

CHUNK = 2**16  # bytes that are parsed at once
MAX_TAG = 2**17  # bytes of a tag or comment, which expat has to keep until it ends
MAX_UNIT = 2**20  # characters of a unit's texts and language codes
MAX_TEXTS = 1_000  # of a unit
MAX_DEPTH = 100  # elements within each other
MAX_NAMES = 200  # different names of elements and attributes, which expat keeps to the end
CODES = {"bpt", "ept", "ph", "it", "ut"}  # elements of a text that hold other programs' formatting codes
OWN_DTD = re.compile(r"(.*[/\\])?tmx\d+\.dtd", re.IGNORECASE)
ENCODING = re.compile(r"utf-8|utf-16(le|be)?|us-ascii|iso-8859-\d+|windows-125\d", re.IGNORECASE)


def read_tmx(path: Path) -> Iterator[Record]:
    """Yield the units of a file, plain or compressed.

    Raises `DragomanError` with file and line for what is not well-formed XML, not TMX, refused, or too large.
    """
    parser = _Parser(path)
    with open_bytes(path) as file:
        while chunk := file.read(CHUNK):
            yield from parser.feed(chunk)
    yield from parser.feed(b"", is_last=True)


class _Parser:
    """Collects the units of a file. Text outside of a unit's segments is not kept."""

    def __init__(self, path: Path) -> None:
        self._path, self._read, self._depth = path, 0, 0
        self._names: set[str] = set()
        self._source_language = ""
        self._units: list[Record] = []  # complete, and not yet yielded
        self._texts: list[tuple[str, str]] | None = None  # of the unit that is being read
        self._start, self._size = 0, 0  # its line, and its characters
        self._language: str | None = None
        self._segment: list[str] | None = None
        self._codes = 0  # elements with formatting codes that are open
        self._is_after_codes = False  # no text has followed the last of them
        self._xml = xml = expat.ParserCreate(intern=None)
        xml.buffer_text = True
        xml.XmlDeclHandler = self._check_declaration
        xml.StartDoctypeDeclHandler = self._check_doctype
        xml.EntityDeclHandler = xml.UnparsedEntityDeclHandler = self._refuse_entity
        xml.ExternalEntityRefHandler = xml.SkippedEntityHandler = self._refuse_entity
        xml.StartElementHandler, xml.EndElementHandler = self._open, self._close
        xml.CharacterDataHandler = self._add_text

    def feed(self, data: bytes, is_last: bool = False) -> list[Record]:
        """The units that are complete after more bytes of the file.

        Raises `DragomanError` for XML that is damaged or refused.
        """
        try:
            self._xml.Parse(data, is_last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise DragomanError(
                f"{self._path}, line {error.lineno}, byte {error.offset + 1}: not well-formed XML ({reason})."
            ) from error
        except DragomanError:  # a ValueError too, of a handler below
            raise
        except (LookupError, ValueError) as error:  # of an encoding that Python does not have
            raise DragomanError(f"{self._path}: {error}. Convert the file to UTF-8.") from error
        self._read += len(data)
        if self._read - self._xml.CurrentByteIndex > MAX_TAG:
            self._refuse(f"a tag or comment of more than {MAX_TAG:,} bytes, which no translation memory has")
        units, self._units = self._units, []
        return units

    def _refuse(self, reason: str) -> NoReturn:
        raise DragomanError(f"{self._path}, line {self._xml.CurrentLineNumber}: {reason}.")

    # ---- what expat calls

    def _check_declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and not ENCODING.fullmatch(encoding):
            self._refuse(f"the encoding {shown(encoding)} is not read; convert the file to UTF-8")

    def _check_doctype(self, name: str, system: str | None, _public: str | None, has_internal: int) -> None:
        if has_internal:
            self._refuse("a DTD within the file is not read, since it may define entities; remove it")
        if name != "tmx" or (system is not None and not OWN_DTD.fullmatch(system)):
            self._refuse(
                f"the document type {shown(name)} with {shown(system)} is not that of TMX; remove it"
            )

    def _refuse_entity(self, *_: object) -> NoReturn:
        self._refuse("an entity that XML does not define itself is not read; write the text in its place")

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and name != "tmx":
            self._refuse(f"the first element is {shown(name)}; that of a translation memory is 'tmx'")
        if self._depth > MAX_DEPTH:
            self._refuse(f"more than {MAX_DEPTH} elements within each other, which no translation memory has")
        self._names.update((name, *attributes))
        if len(self._names) > MAX_NAMES:
            self._refuse(
                f"more than {MAX_NAMES:,} different names of elements and attributes; this is not TMX"
            )
        if name == "header":
            self._source_language = attributes.get("srclang", "")
        elif name == "tu":
            self._texts, self._start, self._size = [], self._xml.CurrentLineNumber, 0
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang"))
        elif name == "seg" and self._texts is not None:
            if not self._language:
                self._refuse("a text without its language (xml:lang of its tuv)")
            self._segment, self._codes, self._is_after_codes = [], 0, False
            self._count(self._language)
        elif name in CODES:
            self._codes += 1

    def _add_text(self, text: str) -> None:
        if self._segment is not None and not self._codes:
            before = self._segment[-1] if self._segment else ""
            if self._is_after_codes and before[-1:].isalpha() and text[:1].isalpha():
                text = f" {text}"  # a code between letters, such as a line break, separates two words
            self._is_after_codes = False
            self._count(text)
            self._segment.append(text)

    def _count(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_UNIT:
            self._refuse(f"a unit of more than {MAX_UNIT:,} characters; split it into sentences")

    def _close(self, name: str) -> None:
        self._depth -= 1
        if name == "seg" and self._texts is not None and self._segment is not None:
            if len(self._texts) == MAX_TEXTS:
                self._refuse(f"a unit of more than {MAX_TEXTS:,} texts")
            self._texts.append((self._language or "", "".join(self._segment)))
            self._segment = None
        elif name == "tuv":
            self._language = None
        elif name == "tu" and self._texts is not None:
            place = f"{self._path}, line {self._start}"
            self._units.append(Record(place, tuple(self._texts), self._source_language))
            self._texts = None
        elif name in CODES:
            self._codes -= 1
            self._is_after_codes = True
