"""A file in, a file out: in order, in constant memory, by any number of processes, and gone on with wherever it was interrupted."""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write
from dragoman.text.lines import raw_lines

BLOCK = 2_000  # lines that are translated and written together
Block = list[tuple[int, bytes]]  # lines with their numbers, counted from 1
TELL_EVERY = 60.0  # seconds, where there is no terminal to show a bar
About = dict[str, object]
T = TypeVar("T")


def translate_file(source: Path, out: Path, about: About, translate: Callable[[Block], list[str]], rank: int = 0, ranks: int = 1) -> bool:
    """Write line n of `out` from line n of `source`, whatever it holds; whether `out` is complete now.

    Blocks of lines become files in `out`.parts, those that are there already are kept, and of several processes each takes every
    so-many-th block. Whoever finds all blocks there joins them. `about` says what the translations depend on, beside the text; it
    lies beside the blocks, and in the end in `out`.json. Every step may be done twice, by two processes at once, and nothing changes.
    Raises `DragomanError` where another translation would be replaced, and for a file that cannot be read.
    """
    if source.exists() and not source.is_file():
        raise DragomanError(f"{source} is no file that can be read twice; translate standard input instead, with < or a pipe.")
    if not out.name or out.is_dir():
        raise DragomanError(f"--output {out} is a folder; give the name of a file.")
    if out.suffix == ".gz":
        raise DragomanError(f"--output {out} would not be packed, as its name says; give one that does not end in .gz.")
    count, digest = measured(source)
    about = json.loads(json.dumps(about | {"source": digest, "block": BLOCK}))
    if finished(out, about):
        return True
    parts = out.with_name(out.name + ".parts")
    try:
        own = begin(parts, about, range(rank, count, ranks))
        for number, block in with_progress(blocks(source, own), len(own), visible=rank == 0):
            write(parts / f"{number:09}", "".join(f"{line}\n" for line in translate(block)).encode("utf-8", "replace"))
        return join(parts, out, count) or finished(out, about)
    except FileNotFoundError:  # another process has found all parts there, and has joined them
        if finished(out, about):
            return True
        raise


def measured(source: Path) -> tuple[int, str]:
    """The number of blocks of a file, and its hash."""
    digest, lines = hashlib.sha256(), 0
    for line in raw_lines(source):
        digest.update(line)
        lines += 1
    return -(-lines // BLOCK), digest.hexdigest()


def finished(out: Path, about: About) -> bool:
    """Whether this very translation is there. Raises `DragomanError` where another one, or another file, would be replaced."""
    note = out.with_name(out.name + ".json")
    there = [path for path in (out, note) if path.exists()]
    if there:
        refuse_another(there[0], noted(note) if note.exists() else {}, about)
    return out.exists()


def begin(parts: Path, about: About, wanted: range) -> set[int]:
    """Make the folder of parts, or go on with it; give the blocks that are wanted and not there."""
    parts.mkdir(parents=True, exist_ok=True)
    note = parts / "about.json"
    if not note.exists():
        write(note, (json.dumps(about, indent=2) + "\n").encode())
    refuse_another(parts, noted(note), about)
    return {number for number in wanted if not (parts / f"{number:09}").exists()}


def noted(note: Path) -> About:
    """What a note says; nothing where it is not one of ours."""
    try:
        found = json.loads(note.read_bytes())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def refuse_another(what: Path, found: About, about: About) -> None:
    """Raise `DragomanError` where what is there is another translation, or none."""
    if not found.keys() & about.keys():
        raise DragomanError(f"{what} is there, and is no translation of this command's; delete it, or choose another --output.")
    if other := different(found, about):
        raise DragomanError(f"{what} is there and holds something else ({', '.join(other)} differ); delete it, or choose another --output.")


def different(found: About, about: About) -> list[str]:
    """The names of what differs, of a table's entries their own."""
    names = []
    for name, value in about.items():
        other = found.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            names += different(other, value)
        elif other != value:
            names.append(name)
    return names


def blocks(source: Path, own: set[int]) -> Iterator[tuple[int, Block]]:
    """These blocks of the file, with their numbers."""
    lines = enumerate(raw_lines(source), 1)
    number = 0
    while block := list(islice(lines, BLOCK)):
        if number in own:
            yield number, block
        number += 1


def with_progress(items: Iterator[T], count: int, visible: bool) -> Iterator[T]:
    """The items, with a bar on a terminal, and elsewhere a sentence now and then."""
    counted = TextColumn(f"blocks of {BLOCK:,} lines")
    columns = (SpinnerColumn(), TextColumn("translating"), MofNCompleteColumn(), counted, TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    if not visible:
        yield from items
    elif bar.console.is_terminal:
        with bar:
            yield from bar.track(items, total=count)
    else:
        begun = told = time.monotonic()
        for done, item in enumerate(items):
            if done and (now := time.monotonic()) - told >= TELL_EVERY:
                minutes = (now - begun) / done * (count - done) / 60
                bar.console.print(
                    f"{done:,} of {count:,} blocks of {BLOCK:,} lines are translated; {minutes:.0f} more minutes.", soft_wrap=True
                )
                told = now
            yield item


def write(path: Path, content: bytes) -> None:
    """A file of these bytes."""
    with atomic_write(path) as new:
        new.write_bytes(content)


def join(parts: Path, out: Path, count: int) -> bool:
    """Put the parts together, if all are there; whether that was so."""
    paths = [parts / f"{number:09}" for number in range(count)]
    if not all(path.exists() for path in paths):
        return False
    with atomic_write(out) as new:
        with new.open("wb") as file:
            for path in paths:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, file)
        write(out.with_name(out.name + ".json"), (parts / "about.json").read_bytes())
    shutil.rmtree(parts, ignore_errors=True)
    return True
