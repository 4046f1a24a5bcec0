"""Translation of the sentences of a document in blocks. With a folder, an interrupted one can be resumed.

Blocks that are done become files in the folder OUT.parts, as blocks of lines do (files.py), beside a record
of what the translations depend on. The folder is removed when the document is written.
"""

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.readers import read_json
from dragoman.system.wording import counted
from dragoman.translation.files import (
    RECORD,
    About,
    different_names,
    lock,
    make_bar,
    read_record,
    refuse_other_files,
    write,
)

logger = logging.getLogger(__name__)
SENTENCES = "sentences"  # in the record: the SHA-256 of the document's sentences
BLOCK = 200  # sentences that are translated and written together
MAX_BLOCK = 10**9  # bytes of its file
Block = Sequence[int]  # the numbers of its sentences


def translate_blocks(
    blocks: Sequence[Block], translate: Callable[[Block], list[str]], parts: Path | None = None
) -> dict[int, str]:
    """The translations of the sentences of all blocks by their numbers. A terminal shows the progress.

    With a folder `parts`, blocks that it has are not translated again, and others are added to it.
    """
    translations: dict[int, str] = {}
    with make_bar("sentences") as bar:
        task = bar.add_task("", total=sum(map(len, blocks)))
        for number, block in enumerate(blocks):
            path = None if parts is None else parts / f"{number:09}"
            texts = None if path is None else read_block(path, len(block))
            if texts is None:
                texts = translate(block)
                if path is not None:
                    write(path, json.dumps(texts).encode())
            translations |= zip(block, texts, strict=True)
            bar.advance(task, len(block))
    return translations


def read_block(path: Path, count: int) -> list[str] | None:
    """The translations of a block of so many sentences; None if they are missing or damaged."""
    try:
        texts = read_json(path, MAX_BLOCK)
    except DragomanError:
        return None
    is_whole = (
        isinstance(texts, list) and len(texts) == count and all(isinstance(text, str) for text in texts)
    )
    return texts if is_whole else None


def parts_of(out: Path) -> Path:
    """The folder of the blocks of a document that is translated to `out`."""
    return out.with_name(f"{out.name}.parts")


def is_of_document(parts: Path) -> bool:
    """Whether a folder has the blocks of a document."""
    return (parts / RECORD).exists() and SENTENCES in read_record(parts / RECORD)


@contextmanager
def kept_blocks(out: Path, about: About) -> Iterator[Path]:
    """The folder for the blocks of a document that is translated to `out`; it is removed at the end.

    `about` is what the translations depend on, with the hash of the `sentences`. A folder of others is
    emptied. After an error, or an interruption, the folder stays. Raises `DragomanError` for a folder with
    files of something else, and if another process has it.
    """
    parts, about = parts_of(out), json.loads(json.dumps(about))
    refuse_other_files(parts)
    with lock(parts, out, rank=0):
        recorded = read_record(parts / RECORD) if (parts / RECORD).exists() else about
        if SENTENCES not in recorded:
            raise DragomanError(
                f"{parts} has the parts of another translation; delete the folder, or choose another output."
            )
        if names := different_names(recorded, about):
            changed = ", ".join(name.replace("_", "-") for name in names)
            logger.info(f"The translation to {out} starts anew, as something else was begun ({changed}).")
            empty(parts)
        write(parts / RECORD, (json.dumps(about, indent=2) + "\n").encode())
        if done := len(block_files(parts)):
            logger.info(
                f"The translation to {out} is resumed; {counted(done, 'block')} of {BLOCK} sentences "
                "were translated before."
            )
        try:
            yield parts
        except KeyboardInterrupt:
            logger.info(
                f"Interrupted; {counted(len(block_files(parts)), 'block')} of {BLOCK} sentences are kept in "
                f"{parts}. The same command resumes."
            )
            raise
        remove(parts)


def block_files(parts: Path) -> list[Path]:
    """The files of a folder's blocks."""
    return [path for path in parts.iterdir() if path.name.isdigit()]


def empty(parts: Path) -> None:
    """Delete the blocks of a folder, and then its record: blocks without one would be of something else."""
    for path in block_files(parts):
        path.unlink(missing_ok=True)
    (parts / RECORD).unlink(missing_ok=True)


def remove(parts: Path) -> None:
    """Delete a folder with the blocks of a document."""
    empty(parts)
    shutil.rmtree(parts, ignore_errors=True)
