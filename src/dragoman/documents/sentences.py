"""The sentences of a file, and the file with their translations: what a server does in a process of its own.

It imports no torch. Results are bytes, which such a process sends.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from dragoman.documents.document import Segment
from dragoman.documents.file import Reading
from dragoman.documents.formats import DocumentFormat
from dragoman.documents.read import READERS


def read_sentences(path: Path, file_format: DocumentFormat, reading: Reading, max_characters: int) -> bytes:
    """A list in JSON: the number of the characters of a file's sentences, then each with its `visible_marks`.

    There are no sentences in it if they have more than `max_characters`. Raises `DragomanError` if the file
    cannot be read.
    """
    segments = READERS[file_format](path.read_bytes(), reading).segments
    characters = sum(len(segment.sentence) for segment in segments)
    if characters > max_characters:
        return json.dumps([characters]).encode()
    sentences = ([segment.sentence, visible_marks(segment)] for segment in segments)
    return json.dumps([characters, *sentences]).encode()


def visible_marks(segment: Segment) -> dict[str, str]:
    """By each mark of a sentence what a reader sees in its place: an address, a placeholder, or nothing.

    Nothing is seen of tags and of what an office file writes.
    """
    return {
        mark: source if mark.endswith("/>") and source.isprintable() and not source.startswith("<") else ""
        for mark, source in segment.marks
    }


def write_file(
    path: Path, written: Path, file_format: DocumentFormat, reading: Reading, translations: Sequence[str]
) -> bytes:
    """Write a file with these translations of its sentences under another path. The result is empty.

    Raises `DragomanError` if it cannot be read.
    """
    written.write_bytes(READERS[file_format](path.read_bytes(), reading).write(translations))
    return b""
