"""What every format makes of a file: its sentences in order, and the file with their translations."""

import codecs
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from dragoman.documents.document import Segment, check_count
from dragoman.system.errors import DragomanError
from dragoman.text.lines import decode_bytes

UNREADABLE = (zlib.error, lzma.LZMAError, struct.error, NotImplementedError, EOFError, ValueError, OSError)
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark begins it
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@dataclass(frozen=True)
class ArchiveLimits:
    """How much a zip file may unpack to."""

    bytes: int = 200_000_000
    """Of all members together."""
    members: int = 20_000
    ratio: int = 200
    """Of the bytes of an unpacked member to those of the packed one."""


@dataclass(frozen=True)
class Reading:
    """How a file is read."""

    name: str
    """Of the file, for messages."""
    source: str
    """The language of its text (ISO 639, "und" if unknown)."""
    target: str
    """The language that it is translated to."""
    split: bool = True
    """Cut lines and blocks into sentences."""
    everything: bool = False
    """Also translate what has a translation already."""
    limits: ArchiveLimits = ArchiveLimits()
    encoding: str | None = None
    """That its user says it is in, whatever it declares; `read_file` decodes it. None is UTF-8, or that of
    the byte order mark."""


class DocumentFile(Protocol):
    """A file that can be translated."""

    @property
    def language(self) -> str:
        """The language that the file says it is in; "" if it does not say so."""
        ...

    @property
    def segments(self) -> Sequence[Segment]:
        """Its sentences, in the order in which they stand in the file."""
        ...

    def write(self, translations: Sequence[str]) -> bytes:
        """The file with a translation in the place of each sentence.

        With the sentences themselves it is the same file. Raises `DragomanError` if there are more or fewer
        translations than sentences.
        """
        ...


class Part(Protocol):
    """A member of an archive that has sentences; a `Document` is one."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Its sentences in order."""
        ...

    def write(self, translations: Sequence[str]) -> bytes:
        """The member with a translation in the place of each sentence."""
        ...


class EncodingError(DragomanError):
    """A file is not in the encoding in which it is read."""


def decode_text(content: bytes, name: str) -> tuple[str, str]:
    """The text of a file with this name, and its encoding: UTF-8, or that of its byte order mark.

    The mark stays in the text. Raises `DragomanError` as `decode_bytes`, which says where the first bytes are
    that are no text.
    """
    encoding = next(
        (BYTE_ORDER_MARKS[mark] for mark in BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8"
    )
    if encoding == "utf-8":
        with suppress(DragomanError):
            return decode_bytes(content, name, 1), encoding
        for number, line in enumerate(content.split(b"\n"), 1):
            try:
                decode_bytes(line, name, number)
            except DragomanError as error:
                if isinstance(error.__cause__, UnicodeDecodeError):
                    raise EncodingError(str(error)) from error
                raise
    try:
        return content.decode(encoding), encoding
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"{name} begins as {encoding.upper()} and is not; convert it to UTF-8."
        ) from error


def codec_name(encoding: str) -> str:
    """The name of an encoding in Python. Raises `DragomanError` for a name that is none of a text's."""
    try:
        "".encode(encoding)
        return codecs.lookup(encoding).name
    except (LookupError, UnicodeError, ValueError) as error:
        raise DragomanError(
            f"{encoding!r} is not an encoding; give one that Python knows, such as cp1252, iso8859-15 or "
            "shift_jis."
        ) from error


def decode_as(content: bytes, name: str, encoding: str) -> tuple[str, str]:
    """The text of a file with this name, and the encoding without a byte order mark, which stays in the text.

    UTF-16 and UTF-32 without a mark are little-endian. Raises `DragomanError` as `codec_name`, and for bytes
    that are no text in this encoding.
    """
    codec = codec_name(encoding)
    if codec in {"utf-16", "utf-32"}:
        marked = (mark for mark in BYTE_ORDER_MARKS if content.startswith(mark))
        codec = next((BYTE_ORDER_MARKS[mark] for mark in marked), f"{codec}-le")
    elif codec == "utf-8-sig":
        codec = "utf-8"
    try:
        text = content.decode(codec)
    except UnicodeError as error:
        place = f", byte {error.start + 1}" if isinstance(error, UnicodeDecodeError) else ""
        raise EncodingError(f"{name}{place}: not {encoding}; give another encoding.") from error
    if "\0" in text:
        raise EncodingError(f"{name} has a NUL if it is read as {encoding}; give another encoding.")
    return text, codec


@dataclass(frozen=True)
class EncodedFile:
    """A file whose encoding its user says; the document in it is read and written as UTF-8."""

    document: DocumentFile
    encoding: str
    escape: Callable[[str], str] | None
    """Writes a character that the encoding lacks, if the format can."""

    @property
    def language(self) -> str:
        """The language that the file says it is in."""
        return self.document.language

    @property
    def segments(self) -> Sequence[Segment]:
        """Its sentences."""
        return self.document.segments

    def write(self, translations: Sequence[str]) -> bytes:
        """The file with the translations. Raises as `DocumentFile.write` and `encode_as`."""
        return encode_as(self.document.write(translations).decode(), self.encoding, self.escape)


def encode_as(text: str, encoding: str, escape: Callable[[str], str] | None) -> bytes:
    """A text in an encoding; `escape` writes each character that it lacks.

    Raises `DragomanError` for such a character if there is no escape.
    """
    try:
        return text.encode(encoding)
    except UnicodeError:
        lacking = [character for character in sorted(set(text)) if lacks(encoding, character)]
    if escape is None:
        raise DragomanError(
            f"The translation has {', '.join(map(repr, lacking[:5]))}, which {encoding} lacks; convert the "
            "document to UTF-8, and translate that."
        )
    return text.translate({ord(character): escape(character) for character in lacking}).encode(encoding)


def lacks(encoding: str, character: str) -> bool:
    """Whether an encoding has no bytes for a character."""
    try:
        character.encode(encoding)
    except UnicodeError:
        return True
    return False


@dataclass(frozen=True)
class Archive:
    """A zip file of which some members are documents, as those of office programs are."""

    content: bytes
    documents: Mapping[str, Part]
    """By the names of the members."""
    language: str = ""
    named_language: Mapping[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    """The members that name the language, and how each is written when a sentence is translated."""

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The sentences of all members."""
        return tuple(segment for document in self.documents.values() for segment in document.segments)

    def write(self, translations: Sequence[str]) -> bytes:
        """The archive with the translations; all other members are as they were, and so is their order.

        Raises `DragomanError` if there are more or fewer translations than sentences.
        """
        check_count(self.segments, translations)
        written: dict[str, bytes] = {}
        done = 0
        for name, document in self.documents.items():
            count = len(document.segments)
            written[name] = document.write(translations[done : done + count])
            done += count
        is_translated = any(
            translation != segment.sentence and not segment.is_empty(translation)
            for segment, translation in zip(self.segments, translations, strict=True)
        )
        changes = self.named_language if is_translated else {}
        output = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self.content)) as archive, zipfile.ZipFile(output, "w") as new:
            new.comment = archive.comment
            for member in archive.infolist():
                name = member.filename
                data = written[name] if name in written else archive.read(member)
                new.writestr(member, changes[name](data) if name in changes else data)
        return output.getvalue()


def read_members(content: bytes, name: str, limits: ArchiveLimits) -> dict[str, bytes]:
    """The members of a zip file with this name, by their names.

    Raises `DragomanError` if it is damaged or encrypted, or unpacks to more than the limits allow.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if len(members) > limits.members or total > limits.bytes:
                raise DragomanError(
                    f"{name} unpacks to {len(members):,} files of {total:,} bytes, and {limits.members:,} of "
                    f"{limits.bytes:,} are allowed; remove what it embeds."
                )
            if any(
                member.file_size > limits.ratio * max(1, member.compress_size) + 2**20 for member in members
            ):
                raise DragomanError(
                    f"A part of {name} unpacks to more than {limits.ratio} times its size; it is refused."
                )
            if any(member.flag_bits & 1 for member in members):
                raise DragomanError(f"{name} is encrypted; remove its password, and translate it then.")
            names = [member.filename for member in members]
            if len(set(names)) < len(names):
                raise DragomanError(f"{name} is damaged: it has two parts with the same name.")
            return {member.filename: archive.read(member) for member in members}
    except DragomanError:  # a ValueError as well
        raise
    except (zipfile.BadZipFile, *UNREADABLE) as error:
        raise DragomanError(f"{name} is not a zip file, or it is damaged ({error}); get it again.") from error
