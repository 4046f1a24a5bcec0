"""A file in, a file out: in order, in constant memory, by any number of processes, and gone on with wherever it was interrupted."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from filelock import FileLock
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from dragoman.errors import DragomanError
from dragoman.text.lines import raw_lines

BLOCK = 2_000  # lines that are translated and written together

Block = list[tuple[int, bytes]]  # lines with their numbers, counted from 1


def translate_file(
    source: Path, out: Path, about: dict[str, object], translate: Callable[[Block], list[str]], rank: int = 0, ranks: int = 1
) -> bool:
    """Write line n of `out` from line n of `source`, whatever it holds; whether `out` is complete now.

    Blocks of lines become files in `out`.parts, those that are there already are kept, and of several processes each takes every
    so-many-th block. Whoever finds all blocks there joins them. `about` says what the translations depend on, beside the text.
    Raises `DragomanError` where the parts are of another translation, and for a file that cannot be read.
    """
    parts = out.with_name(out.name + ".parts")
    lines, digest = measured(source)
    count = -(-lines // BLOCK)
    begin(parts, about | {"source": digest, "block": BLOCK})
    counted = TextColumn(f"blocks of {BLOCK:,} lines")
    columns = (SpinnerColumn(), TextColumn("translating"), MofNCompleteColumn(), counted, TimeRemainingColumn())
    with Progress(*columns, transient=True, disable=rank > 0) as progress:
        task = progress.add_task("", total=count)
        for number, block in enumerate(blocks(source)):
            path = parts / f"{number:09}"
            if number % ranks == rank and not path.exists():
                new = path.with_suffix(".new")
                new.write_text("".join(f"{line}\n" for line in translate(block)), "utf-8", errors="replace", newline="\n")
                new.replace(path)
            progress.advance(task)
    return join(parts, out, count)


def measured(source: Path) -> tuple[int, str]:
    """The number of lines of a file, and its hash."""
    digest, count = hashlib.sha256(), 0
    for line in raw_lines(source):
        digest.update(line)
        count += 1
    return count, digest.hexdigest()


def blocks(source: Path) -> Iterator[Block]:
    """The file's lines, so many together."""
    lines = enumerate(raw_lines(source), 1)
    while block := list(islice(lines, BLOCK)):
        yield block


def begin(parts: Path, about: dict[str, object]) -> None:
    """Make the folder of parts, or go on with it. Raises `DragomanError` where it belongs to another translation."""
    parts.mkdir(parents=True, exist_ok=True)
    note, about = parts / "about.json", json.loads(json.dumps(about))
    with FileLock(parts.with_name(parts.name + ".lock")):
        if not note.exists():
            new = note.with_suffix(".new")
            new.write_text(json.dumps(about, indent=2) + "\n")
            new.replace(note)
        begun = json.loads(note.read_text())
    if other := [name for name, value in about.items() if begun.get(name) != value]:
        raise DragomanError(
            f"{parts} holds parts of another translation ({', '.join(other)} differ); delete it, or choose another --output."
        )


def join(parts: Path, out: Path, count: int) -> bool:
    """Put the parts together, if all are there and nobody has done it before; whether that is so now."""
    with FileLock(parts.with_name(parts.name + ".lock")):
        if not parts.exists():
            return out.exists()
        paths = [parts / f"{number:09}" for number in range(count)]
        if not all(path.exists() for path in paths):
            return False
        new = out.with_name(out.name + ".new")
        with new.open("wb") as file:
            for path in paths:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, file)
        new.replace(out)
        shutil.rmtree(parts)
        parts.with_name(parts.name + ".lock").unlink(missing_ok=True)
    return True
