"""From text files to memory-mapped ids, in shards that several processes write in constant memory."""

import hashlib
import heapq
import json
import resource
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.system.errors import DragomanError
from dragoman.system.machine import granted_processors
from dragoman.text.lines import line_starts, open_bytes, raw_lines, read_lines, read_pairs
from dragoman.text.settings import DataSettings
from dragoman.text.tokenizer import Tokenizer

Ids = npt.NDArray[np.integer]
SHARD_LINES = 250_000
BLOCK_LINES = 10_000
MOST_HELD_OUT = 2_000


def line_hash(line: str) -> int:
    """64 bits of BLAKE2b of a line without surrounding white space: the same on every machine."""
    return int.from_bytes(hashlib.blake2b(line.strip().encode(), digest_size=8).digest(), "big")


@dataclass
class Survey:
    """Counts of pairs of lines in the training files."""

    pairs: int = 0
    empty: int = 0
    copies: int = 0
    overlap: dict[str, int] = field(default_factory=dict)
    held_out: int = 0
    too_long: int = 0
    kept: int = 0
    crlf: int = 0
    """Lines of both files that end with CRLF."""

    def sentences(self) -> list[str]:
        """The counts in words."""
        counts = [f"{self.pairs:,} pairs"]
        if self.empty:
            counts.append(f"{self.empty:,} have an empty side and are left out")
        if self.copies:
            counts.append(f"{self.copies:,} have a source equal to its target")
        counts += [
            f"{count:,} have a source that is also in the {name} data"
            for name, count in self.overlap.items()
            if count
        ]
        if self.held_out:
            counts.append(f"{self.held_out:,} are held out for validation")
        if self.crlf:
            counts.append(f"{self.crlf:,} lines end with CRLF; the carriage return is removed")
        if self.too_long:
            counts.append(f"{self.too_long:,} are longer than the recipe allows and are left out")
        return counts


@dataclass(frozen=True)
class Selection:
    """Which pairs a corpus keeps."""

    drop_copies: bool = False
    drop: frozenset[int] = frozenset()
    """Hashes of sources that are left out because they are in other data."""
    held_out: frozenset[int] = frozenset()
    """Hashes of the sources of the validation pairs; repetitions of a sentence stay together."""

    def keeps(self, source: str, target: str) -> bool:
        """Whether the pair is for training."""
        if not source.strip() or not target.strip() or (self.drop_copies and source == target):
            return False
        hashed = line_hash(source)
        return hashed not in self.held_out and hashed not in self.drop


def survey(
    source: Path, target: Path, settings: DataSettings, others: dict[str, frozenset[int]], hold_out: bool
) -> tuple[Survey, Selection]:
    """Read both files once, check every line, and decide which pairs to keep.

    `others` has the hashes of the sources of other data, by name. With `hold_out`, about one pair in 50 and
    at most 2,000 go to validation: those whose sources have the smallest hashes, without sentences that occur
    too often for that. Raises `DragomanError` for whatever is wrong with the files.
    """
    summary = Survey(overlap=dict.fromkeys(others, 0))
    summary.crlf = sum(
        raw.removesuffix(b"\n").endswith(b"\r") for path in (source, target) for raw in raw_lines(path)
    )
    smallest: list[int] = []  # a heap of negated hashes: the largest of the smallest is on top
    known: dict[int, int] = {}  # how many pairs have a source of each of the smallest hashes
    for one, other in read_pairs(source, target):
        summary.pairs += 1
        if not one.strip() or not other.strip():
            summary.empty += 1
            continue
        summary.copies += one == other
        hashed = line_hash(one)
        for name, hashes in others.items():
            summary.overlap[name] += hashed in hashes
        if hashed in known:
            known[hashed] += 1
        elif len(smallest) <= MOST_HELD_OUT or hashed < -smallest[0]:
            known[hashed] = 1
            heapq.heappush(smallest, -hashed)
            if len(smallest) > MOST_HELD_OUT + 1:
                del known[-heapq.heappop(smallest)]
    if hold_out and len(known) < 2:
        raise DragomanError(
            f"{source} has too few different sentences to hold some out; give --valid-source and "
            "--valid-target."
        )
    held_out = (
        choose_held_out(known, min(MOST_HELD_OUT, max(1, summary.pairs // 50))) if hold_out else frozenset()
    )
    drop = frozenset().union(*others.values()) if settings.drop_overlap else frozenset()
    return summary, Selection(settings.drop_copies, drop, held_out)


def choose_held_out(counts: dict[int, int], most: int) -> frozenset[int]:
    """Of sentences by hash, with the pairs that each has: the first that have at most so many together.

    At least one, a rare one.
    """
    taken: set[int] = set()
    for hashed in sorted(counts):
        if counts[hashed] <= most:
            taken.add(hashed)
            most -= counts[hashed]
    return frozenset(taken or {min(counts, key=lambda hashed: (counts[hashed], hashed))})


def source_hashes(path: Path, strip_carriage_returns: bool = True) -> frozenset[int]:
    """Hashes of the lines of a small file, to find them in another file."""
    return frozenset(line_hash(line) for line in read_lines(path, strip_carriage_returns) if line.strip())


def plain_file(path: Path, folder: Path) -> Path:
    """The file itself, or its unpacked copy in `folder`: shards need to begin in the middle of a file."""
    if path.suffix != ".gz":
        return path
    folder.mkdir(parents=True, exist_ok=True)
    unpacked = folder / path.stem
    with open_bytes(path) as packed, unpacked.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return unpacked


def sample_pairs(
    source: Path, target: Path, selection: Selection, pairs: int, most: int
) -> Iterator[tuple[str, str]]:
    """Training pairs for the tokenizer: every k-th, so that there are at most `most`.

    Never one that is held out.
    """
    step = max(1, -(-pairs // most))
    kept = (pair for pair in read_pairs(source, target) if selection.keeps(*pair))
    return islice(kept, 0, None, step)


def held_out_pairs(source: Path, target: Path, selection: Selection) -> list[tuple[str, str]]:
    """The validation pairs that `survey` selected."""
    return [
        pair
        for pair in read_pairs(source, target)
        if all(map(str.strip, pair)) and line_hash(pair[0]) in selection.held_out
    ]


@dataclass(frozen=True)
class _Shard:
    """Lines of both files, and where their ids go: all that a process needs to know."""

    source: Path
    target: Path
    starts: tuple[int, int]
    first: int
    lines: int
    out: Path
    selection: Selection
    tokenizers: tuple[Path, Path]
    longest: int


def _write_shard(shard: _Shard) -> tuple[int, int]:
    """Encode the shard's lines; give the numbers of pairs kept and too long."""
    source, target = (Tokenizer.load(path) for path in shard.tokenizers)
    lines = islice(
        zip(
            *(
                read_lines(path, start=start, first=shard.first)
                for path, start in zip((shard.source, shard.target), shard.starts, strict=True)
            ),
            strict=False,
        ),
        shard.lines,
    )
    kept = ((number, *pair) for number, pair in enumerate(lines, shard.first) if shard.selection.keeps(*pair))
    sides: tuple[list[Ids], list[Ids]] = ([], [])
    numbers = []
    too_long = 0
    while block := list(islice(kept, BLOCK_LINES)):
        encoded = zip(
            source.encode([one for _, one, _ in block]),
            target.encode([other for *_, other in block]),
            strict=True,
        )
        for (number, *_), pair in zip(block, encoded, strict=True):
            if shard.longest and max(map(len, pair)) > shard.longest:
                too_long += 1
                continue
            numbers.append(number)
            for side, ids, tokenizer in zip(sides, pair, (source, target), strict=True):
                side.append(np.array(ids, dtype=np.uint16 if len(tokenizer) <= 2**16 else np.uint32))
    for name, side in zip(("source", "target"), sides, strict=True):
        np.save(
            shard.out / f"{shard.first - 1:09}.{name}.npy",
            np.concatenate(side) if side else np.zeros(0, np.uint16),
        )
        offsets = np.cumsum([0, *map(len, side)], dtype=np.uint32)
        np.save(shard.out / f"{shard.first - 1:09}.{name}-offsets.npy", offsets)
    np.save(shard.out / f"{shard.first - 1:09}.lines.npy", np.array(numbers, np.uint32))
    return len(numbers), too_long


def write_corpus(
    folder: Path,
    files: tuple[Path, Path],
    tokenizers: tuple[Path, Path],
    settings: DataSettings,
    selection: Selection,
    summary: Survey,
    longest: int,
    shard_lines: int = SHARD_LINES,
) -> "Corpus":
    """Encode two plain text files that `survey` has checked into `folder`, which appears only when it is
    complete.

    Raises `DragomanError` if no pair is left.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    starts = zip(*(line_starts(path, shard_lines) for path in files), strict=True)
    shards = [
        _Shard(*files, start, number * shard_lines + 1, shard_lines, partial, selection, tokenizers, longest)
        for number, start in enumerate(starts)
    ]
    workers = min(len(shards), granted_processors())
    if workers == 1:
        counts = [_write_shard(shard) for shard in shards]
    else:
        with ProcessPoolExecutor(
            workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_DFL)
        ) as pool:  # without a word
            counts = list(pool.map(_write_shard, shards))
    summary.kept = sum(kept for kept, _ in counts)
    summary.too_long += sum(too_long for _, too_long in counts)
    if not summary.kept:
        shutil.rmtree(partial)
        names = (
            settings.source or files[0],
            settings.target or files[1],
        )  # the user's, where these are unpacked copies
        raise DragomanError(
            f"No pair of {names[0]} and {names[1]} is left for training: {'; '.join(summary.sentences())}."
        )
    (partial / "corpus.json").write_text(json.dumps(asdict(summary), indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return Corpus(folder)


def allow_open_files(count: int) -> None:
    """Let this process have so many files open beside some others, as far as the system allows: a mapped file
    is an open one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 500
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(hard, wanted), hard)
        )


class Corpus:
    """Pairs of ids, memory-mapped: only what is looked at is read.

    Raises `DragomanError` if the folder is not whole.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self.summary = Survey(**json.loads((folder / "corpus.json").read_text()))
            names = sorted(path.name.split(".")[0] for path in folder.glob("*.source.npy"))
            allow_open_files(5 * len(names))
            self._sides = [[self._map(folder, name, side) for name in names] for side in ("source", "target")]
            self._lines = [
                np.load(folder / f"{name}.lines.npy", mmap_mode="r", allow_pickle=False) for name in names
            ]
        except (OSError, ValueError, TypeError) as error:
            raise DragomanError(
                f"{folder} is not a complete corpus ({error}); begin again with another --out."
            ) from error
        self._firsts = np.cumsum([0] + [len(offsets) - 1 for _, offsets in self._sides[0]])

    @staticmethod
    def _map(folder: Path, name: str, side: str) -> tuple[Ids, Ids]:
        ids, offsets = (
            np.load(folder / f"{name}.{kind}.npy", mmap_mode="r", allow_pickle=False)
            for kind in (side, f"{side}-offsets")
        )
        return np.asarray(ids), np.asarray(
            offsets
        )  # views of the mapped files: slices of a memmap itself are slow

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, pair: int) -> tuple[Ids, Ids]:
        """Source and target ids of a pair, without start and end."""
        shard, row = self._place(pair)
        (source, source_offsets), (target, target_offsets) = self._sides[0][shard], self._sides[1][shard]
        return source[source_offsets[row] : source_offsets[row + 1]], target[
            target_offsets[row] : target_offsets[row + 1]
        ]

    def line(self, pair: int) -> int:
        """The line of the text files that a pair was read from, counted from 1."""
        shard, row = self._place(pair)
        return int(self._lines[shard][row])

    def _place(self, pair: int) -> tuple[int, int]:
        """The shard of a pair and its row there."""
        shard = int(np.searchsorted(self._firsts, pair, side="right")) - 1
        return shard, pair - int(self._firsts[shard])

    def lengths(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Source and target tokens of every pair."""
        source, target = (
            np.concatenate([np.diff(offsets).astype(np.int32) for _, offsets in side]) for side in self._sides
        )
        return source, target
