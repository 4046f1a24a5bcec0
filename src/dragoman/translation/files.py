"""Translation of a file to a file: in order, in constant memory, by several processes; it can be resumed.

Blocks of lines become files in the folder OUT.parts. Blocks that exist are kept. Of N processes each one
translates every N-th block, and the process that finds all blocks complete joins them. What the translations
depend on besides the text is recorded in `about.json` in that folder, and at the end in OUT.json.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import atomic_write, file_hash
from dragoman.system.progress import with_progress
from dragoman.system.readers import MAX_LIST, read_json
from dragoman.system.terminal import shows_bars
from dragoman.text.lines import decode_line, raw_lines

logger = logging.getLogger(__name__)
RECORD = "about.json"  # in the folder of parts
OUTPUT = "output"  # in OUT.json: the SHA-256 of OUT
BLOCK = 2_000  # lines that are translated and written together
Block = list[tuple[int, bytes]]  # lines with their numbers, counted from 1
About = dict[str, object]
T = TypeVar("T")


def translate_file(
    source: Path,
    out: Path,
    about: About,
    translate: Callable[[Block], list[str]],
    rank: int = 0,
    ranks: int = 1,
) -> bool:
    """Write line n of `out` from line n of `source`; return whether `out` is complete now.

    `about` is what the translations depend on besides the text.
    Raises `DragomanError` if another translation would be replaced, if another process writes this one, for a
    file that cannot be read, and for one that changes meanwhile.
    """
    refuse_paths(source, out)
    count, digest = measure(source)
    about = json.loads(json.dumps(about | {"source": digest, "block": BLOCK}))
    parts = out.with_name(out.name + ".parts")
    if is_complete(out, about):
        if (parts / RECORD).exists() and read_record(parts / RECORD) == about:
            shutil.rmtree(parts, ignore_errors=True)  # a process that was killed has left them
        logger.info(f"{out} is complete already; nothing was translated.")
        return True
    try:
        refuse_other_files(parts)
        with lock(parts, out, rank):
            if is_complete(out, about):  # by the process that had the lock until now
                shutil.rmtree(parts, ignore_errors=True)
                return True
            missing = open_parts(parts, about, range(rank, count, ranks), last=count - 1)
            translate_blocks(source, parts, missing, count, translate, visible=rank == 0)
            refuse_changed(source, parts, before=(count, digest))
            is_joined = join(parts, out, count)
    except FileNotFoundError:  # another process has found all blocks complete, and has joined them
        if not is_complete(out, about):
            raise
        is_joined = True
    if is_joined or is_complete(out, about):
        logger.info(f"{out} is complete; {out}.json lists what it was made with.")
        return True
    logger.info(
        f"Other processes have not written all of their blocks of {out} yet; the last one joins them."
    )
    return False


def refuse_paths(source: Path, out: Path) -> None:
    """Raise `DragomanError` for an input that cannot be read twice, and an output that cannot be written."""
    if source.exists() and not source.is_file():
        raise OptionError(
            "{source} is not a regular file, and cannot be read twice; copy it to a file, or give it to "
            "dragoman translate by a pipe or <, without {input}.",
            source=source,
        )
    if not out.name or out.is_dir():
        raise OptionError("{output} {folder} is a folder; give the name of a file.", folder=out)
    if source.absolute() == out.absolute().with_name(out.name + ".json"):
        raise OptionError(
            "Beside {output} {path}, {source} would say how it was made, and that is the input; choose "
            "another {output}.",
            path=out,
            source=source,
        )
    if out.suffix in {".gz", ".zst"}:
        raise OptionError(
            "{output} {path} would not be compressed, as its name says; give one that does not end in "
            f"{out.suffix}.",
            path=out,
        )


def refuse_other_files(parts: Path) -> None:
    """Raise `DragomanError` for a folder of parts without a record: its files are of something else.

    Hidden files are those that another process is writing now.
    """
    if parts.exists() and not parts.is_dir():
        raise DragomanError(
            f"{parts} is a file, and the parts of the translation need a folder of this name."
        )
    names = [path.name for path in parts.iterdir()] if parts.exists() else []
    others = sorted(name for name in names if not name.startswith(("lock-", ".")))
    if others and not (parts / RECORD).exists():  # in this order: blocks are written after the record
        raise DragomanError(
            f"{parts} has files that are not of this translation ({', '.join(others[:3])}); move or delete "
            "the folder, or choose another output."
        )


@contextmanager
def lock(parts: Path, out: Path, rank: int) -> Iterator[None]:
    """Keep other processes of the same rank from the blocks. Raises `DragomanError` if one has the lock."""
    parts.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(parts / f"lock-{rank}").acquire(timeout=0):
            yield
    except Timeout as error:
        raise DragomanError(
            f"Another process is translating to {out}; wait for it, or choose another output."
        ) from error


def translate_blocks(
    source: Path,
    parts: Path,
    missing: set[int],
    count: int,
    translate: Callable[[Block], list[str]],
    visible: bool,
) -> None:
    """Translate the missing blocks into the folder of parts. Says so if it is interrupted.

    Raises `DragomanError` if a block does not get one translation, of one line, for each line.
    """
    try:
        for number, block in with_bar(blocks(source, missing), len(missing), visible):
            lines = translate(block)
            if len(lines) != len(block) or any("\n" in line for line in lines):
                raise DragomanError(
                    f"A block of {len(block):,} lines has {len(lines):,} translations, or one with a line "
                    "feed; each line needs one translation of one line."
                )
            write(parts / f"{number:09}", "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    except KeyboardInterrupt:
        done = sum((parts / f"{number:09}").exists() for number in range(count))
        logger.info(
            f"Interrupted; {done:,} of {count:,} blocks of {BLOCK:,} lines are kept in {parts}. The same "
            "command resumes."
        )
        raise


def measure(source: Path) -> tuple[int, str]:
    """The number of blocks of a file, and its hash. Raises `DragomanError` as `decode_line`."""
    digest, number = hashlib.sha256(), 0
    for number, line in enumerate(raw_lines(source), 1):
        decode_line(line, source, number)
        digest.update(line)
    return -(-number // BLOCK), digest.hexdigest()


def refuse_changed(source: Path, parts: Path, before: tuple[int, str]) -> None:
    """Raise `DragomanError` if a file has changed since it was measured."""
    if measure(source) != before:
        raise DragomanError(
            f"{source} has changed while it was translated; delete {parts}, and run the command again."
        )


def is_complete(out: Path, about: About) -> bool:
    """Whether this translation exists. Raises `DragomanError` if another file would be replaced."""
    record = out.with_name(out.name + ".json")
    existing = [path for path in (out, record) if path.exists()]
    if not existing:
        return False
    recorded = read_record(record) if record.exists() else {}
    refuse_another(existing, recorded, about)
    if out.exists() and recorded.get(OUTPUT, file_hash(out)) != file_hash(out):
        raise DragomanError(
            f"{out} is not as it was written; delete it to translate again, or choose another output."
        )
    return out.exists()


def open_parts(parts: Path, about: About, numbers: range, last: int) -> set[int]:
    """Begin the folder of parts, or resume it; return which of the blocks are missing or damaged."""
    record = parts / RECORD
    if not record.exists():
        write(record, (json.dumps(about, indent=2) + "\n").encode())
    refuse_another([parts], read_record(record), about)
    return {number for number in numbers if not is_whole(parts / f"{number:09}", number == last)}


def is_whole(part: Path, is_last: bool) -> bool:
    """Whether a block has been written, and has as many lines as a block; the last one may have fewer."""
    if not part.exists():
        return False
    content = part.read_bytes()
    lines = content.count(b"\n")
    return content.endswith(b"\n") and (lines == BLOCK or (is_last and lines < BLOCK))


def read_record(record: Path) -> About:
    """What a translation depended on; nothing if the file is not such a record.

    Raises `FileNotFoundError` if there is none.
    """
    try:
        about = read_json(record, MAX_LIST)
    except DragomanError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from None
        return {}
    return about if isinstance(about, dict) else {}


def refuse_another(paths: Sequence[Path], recorded: About, about: About) -> None:
    """Raise `DragomanError` if files are of another translation, or of none."""
    path, all_paths = paths[0], " and ".join(map(str, paths))
    if not recorded.keys() & about.keys():
        raise DragomanError(
            f"{path} exists, and is not a translation of this command; delete {all_paths}, or choose another "
            "output."
        )
    if names := different_names(recorded, about):
        changed = ", ".join(f"{{{name}}}" for name in names)
        raise OptionError(
            f"{{path}} exists and was made with something else (changed: {changed}); delete {{paths}}, or "
            "choose another output.",
            path=path,
            paths=all_paths,
        )


def different_names(recorded: About, about: About) -> list[str]:
    """The names whose values differ; for tables, those of their entries."""
    names = []
    for name, value in about.items():
        other = recorded.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            names += different_names(other, value)
        elif other != value:
            names.append(name)
    return names


def blocks(source: Path, numbers: set[int]) -> Iterator[tuple[int, Block]]:
    """The wanted blocks of the file, with their numbers."""
    lines = enumerate(raw_lines(source), 1)
    number = 0
    while block := list(islice(lines, BLOCK)):
        if number in numbers:
            yield number, block
        number += 1


def with_bar(items: Iterator[T], count: int, visible: bool) -> Iterator[T]:
    """The items, with a progress bar on a terminal, and elsewhere a sentence now and then."""
    bar = make_bar(f"blocks of {BLOCK:,} lines")
    if not visible:
        yield from items
    elif not bar.disable:
        with bar:
            yield from bar.track(items, total=count)
    else:
        yield from with_progress(items, count, f"blocks of {BLOCK:,} lines are translated")


def make_bar(unit: str) -> Progress:
    """A progress bar on standard error that counts units. Only a terminal and a notebook show it."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("translating"),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not shows_bars(console))


def write(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_write(path) as new:
        new.write_bytes(content)


def join(parts: Path, out: Path, count: int) -> bool:
    """Join the blocks if all are complete; return whether they were."""
    paths = [parts / f"{number:09}" for number in range(count)]
    if not all(is_whole(path, path == paths[-1]) for path in paths):
        return False
    with atomic_write(out) as new:
        with new.open("wb") as file:
            for path in paths:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, file)
        about = read_record(parts / RECORD) | {OUTPUT: file_hash(new)}
        write(out.with_name(out.name + ".json"), (json.dumps(about, indent=2) + "\n").encode())
    shutil.rmtree(parts, ignore_errors=True)
    return True
