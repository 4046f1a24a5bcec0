"""What every format makes of a file: its sentences in order, and the file with their translations."""

import codecs
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
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


def decode_text(content: bytes, name: str) -> tuple[str, str]:
    """The text of a file with this name, and its encoding: UTF-8, or that of its byte order mark.

    The mark stays in the text. Raises `DragomanError` as `decode_bytes`, which says where the first bytes are
    that are no text.
    """
    encoding = next(
        (BYTE_ORDER_MARKS[mark] for mark in BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8"
    )
    if encoding == "utf-8":
        for number, line in enumerate(content.split(b"\n"), 1):
            decode_bytes(line, name, number)
    try:
        return content.decode(encoding), encoding
    except UnicodeDecodeError as error:
        raise DragomanError(
            f"{name} begins as {encoding.upper()} and is not; convert it to UTF-8."
        ) from error


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
        raise DragomanError(f"{name} is not a zip file, or it is damaged ({error}).") from error
