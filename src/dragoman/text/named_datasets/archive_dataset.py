"""A dataset that is put together from archives: which members are the lines of which text."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from filelock import FileLock

from dragoman.system.errors import DragomanError, reason
from dragoman.system.files import atomic_write, file_hash
from dragoman.system.readers import read_json
from dragoman.text.named_datasets.archives import Archive, plain_lines, read_member, text_hash
from dragoman.text.named_datasets.downloads import DOWNLOAD_ERRORS, download, raise_if_disk_full

Hashes = dict[str, str]  # SHA-256 of archives, and of texts without compression, by their names
HASHES = "hashes.json"


@dataclass(frozen=True)
class ArchivePart:
    """Two members of an archive; line n of one is the translation of line n of the other."""

    archive: Archive
    source: str
    target: str
    read: Callable[[Iterable[bytes]], Iterator[str]] = plain_lines
    """From the lines of a member to its sentences."""
    keeps: Callable[[int], bool] | None = None
    """Whether the pair of this number, from 1, is taken; None takes all."""

    def pairs(self, folder: Path) -> Iterator[tuple[str, str]]:
        """The pairs that are taken. Raises `DragomanError` for members of different lengths."""
        path = folder / self.archive.name
        sides = (self.read(read_member(path, name)) for name in (self.source, self.target))
        for number, (source, target) in enumerate(zip_longest(*sides), 1):
            if source is None or target is None:
                raise DragomanError(
                    f"{self.source} and {self.target} in {path} have different numbers of lines: one ends "
                    f"before line {number}. Delete the archive to download it again."
                )
            if self.keeps is None or self.keeps(number):
                yield source, target


@dataclass(frozen=True)
class Text:
    """A text of both languages, its parts one after the other."""

    name: str
    """Of its two files, without the languages' endings."""
    parts: tuple[ArchivePart, ...]


@dataclass(frozen=True)
class ArchiveDataset:
    """A parallel corpus that is put together from archives, in a folder that keeps both."""

    description: str
    licence: str
    languages: tuple[str, str]
    """Codes of source and target, which are the endings of the texts."""
    texts: tuple[Text, Text, Text]
    """Training, validation and test."""
    training_bytes: int
    """Of the training text, both sides, about."""

    def names(self, text: Text) -> list[str]:
        """The names of a text's two files."""
        return [f"{text.name}.{language}" for language in self.languages]

    def find(self, folder: Path) -> list[Path]:
        """The six texts in `folder`, plain or gzip; those that are missing are put together there.

        Processes that ask at once wait for the first one. Hashes are recorded in hashes.json; what has been
        recorded is compared. Raises `DragomanError` for an archive that cannot be downloaded, is damaged, or
        is another one, and for a text that has changed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        names = [name for text in self.texts for name in self.names(text)]
        with FileLock(folder / ".lock"):
            self.assemble(folder)
            paths = [located(folder, name) for name in names]
            hashes = read_hashes(folder)
            new = {
                name: text_hash(path) for name, path in zip(names, paths, strict=True) if name not in hashes
            }
            write_hashes(folder, new)
        for name, path in zip(names, paths, strict=True):
            if name in hashes and (actual_hash := text_hash(path)) != hashes[name]:
                raise DragomanError(
                    f"{path} has changed: the SHA-256 of its text was {hashes[name]} and is {actual_hash}. "
                    f"Delete it to have it put together again; if the new text is meant, delete {HASHES}."
                )
        return paths

    def assemble(self, folder: Path) -> None:
        """Put together the texts that are missing, from archives that are verified first."""
        missing = [
            text
            for text in self.texts
            if not all(located(folder, name).exists() for name in self.names(text))
        ]
        archives = list(dict.fromkeys(part.archive for text in missing for part in text.parts))
        for archive in archives:
            if not (folder / archive.name).exists():
                self.fetch(archive, folder, archives)
            verify(archive, folder)
        for text in missing:
            source, target = (folder / name for name in self.names(text))
            with (
                atomic_write(target) as new_target,
                atomic_write(source) as new_source,
                new_source.open("w", encoding="utf-8", newline="\n") as sources,
                new_target.open("w", encoding="utf-8", newline="\n") as targets,
            ):
                for part in text.parts:
                    for pair in part.pairs(folder):
                        sources.write(f"{pair[0]}\n")
                        targets.write(f"{pair[1]}\n")

    def fetch(self, archive: Archive, folder: Path, archives: list[Archive]) -> None:
        """Download an archive. The error lists all missing files, for users who must fetch them by hand."""
        try:
            download(archive.url, folder / archive.name)
        except DOWNLOAD_ERRORS as error:
            raise_if_disk_full(error)
            missing = [entry for entry in archives if not (folder / entry.name).exists()]
            listing = "".join(f"\n  {entry.name}   from {entry.url}" for entry in missing)
            texts = ", ".join(name for text in self.texts for name in self.names(text))
            raise DragomanError(
                f"{archive.name} is not in {folder}, and {archive.url} cannot be downloaded "
                f"({reason(error)}). If this machine is offline, put these files into {folder} by hand:"
                f"{listing}\nOr put the texts themselves there, one sentence per line, plain or gzip: "
                f"{texts}."
            ) from error


def located(folder: Path, name: str) -> Path:
    """The path of a text, which may be compressed."""
    plain, compressed = folder / name, folder / f"{name}.gz"
    return compressed if compressed.exists() and not plain.exists() else plain


def verify(archive: Archive, folder: Path) -> None:
    """Compare an archive with its known or recorded hash; record one that is not known.

    Raises `DragomanError` if it is another file.
    """
    path = folder / archive.name
    expected, actual = archive.sha256 or read_hashes(folder).get(archive.name), file_hash(path)
    if expected is not None and actual != expected:
        known = "is published" if archive.sha256 else f"was recorded in {folder / HASHES}"
        raise DragomanError(
            f"{path} is not the file that was expected: its SHA-256 is {actual}, and the one that {known} is "
            f"{expected}. Delete it to download it again."
        )
    write_hashes(folder, {archive.name: actual})


def read_hashes(folder: Path) -> Hashes:
    """The hashes that were recorded. Raises `DragomanError` for a damaged file."""
    path = folder / HASHES
    hashes = read_json(path) if path.exists() else {}
    if not isinstance(hashes, dict) or not all(isinstance(value, str) for value in hashes.values()):
        raise DragomanError(
            f"{path} is not a table of names with their SHA-256; delete it to record them again."
        )
    return hashes


def write_hashes(folder: Path, new: Hashes) -> None:
    """Add hashes to those that were recorded."""
    if new:
        with atomic_write(folder / HASHES) as path:
            path.write_text(json.dumps(read_hashes(folder) | new, indent=2) + "\n")
