"""A corpus of memory-mapped ids. Several processes write its shards from text files in constant memory."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.system.errors import DragomanError, OptionError, reason
from dragoman.system.machine import raise_open_file_limit
from dragoman.system.processors import map_in_processes
from dragoman.system.readers import read_json
from dragoman.system.toml import check_bounds, from_table
from dragoman.system.wording import shown
from dragoman.text.held_out import HeldOutSources
from dragoman.text.lines import line_hash, line_offsets, raw_lines, read_lines, read_pairs
from dragoman.text.settings import DataSettings
from dragoman.text.tokenizer import Tokenizer

Files = tuple[Path, Path]  # of sources and of targets
Ids = npt.NDArray[np.integer]
SHARD_LINES = 250_000
BLOCK_LINES = 10_000  # lines that are tokenized in one call


@dataclass
class CorpusStatistics:
    """Numbers of pairs in the training files; the fields are the keys of corpus.json."""

    pairs: int = 0
    empty: int = 0
    """Pairs with an empty side."""
    copies: int = 0
    """Pairs whose source equals their target."""
    overlap: dict[str, int] = field(default_factory=dict)
    """Pairs whose source is also in other data, by the name of that data."""
    held_out: int = 0
    too_long: int = 0
    kept: int = 0
    crlf: int = 0
    """Lines of both files that end with CRLF."""
    weights: dict[str, float] = field(default_factory=dict)
    """The weight of each corpus, by its first line, if the files hold several corpora in succession."""
    sampled_copies: int = 1
    """Copies of all pairs that follow each other in the corpus, each in other tokens (`sample_copies`)."""

    def describe(self) -> list[str]:
        """The numbers as parts of a sentence, without those that are zero."""
        counts = [
            (self.empty, "with an empty side, left out"),
            (self.copies, "with a source equal to its target"),
            *((n, f"with a source that is also in the {name} data") for name, n in self.overlap.items()),
            (self.held_out, "held out for validation"),
            (
                self.crlf,
                f"line{'s' if self.crlf > 1 else ''} with CRLF at the end; the carriage return is removed",
            ),
            (self.too_long, "longer than the recipe allows, or without a token on a side, left out"),
        ]
        return [
            f"{self.pairs:,} pair{'s' if self.pairs > 1 else ''}",
            *(f"{n:,} {description}" for n, description in counts if n),
        ]


@dataclass(frozen=True)
class PairFilter:
    """Decides which pairs are for training."""

    drop_copies: bool = False
    drop_sources: frozenset[int] = frozenset()
    """Hashes of sources that are left out because they are in other data."""
    held_out: frozenset[int] = frozenset()
    """Hashes of the sources of the validation pairs. All pairs of a repeated source are held out together."""

    def keeps(self, source: str, target: str) -> bool:
        """Whether the pair is for training."""
        if not source.strip() or not target.strip() or (self.drop_copies and source == target):
            return False
        hashed = line_hash(source)
        return hashed not in self.held_out and hashed not in self.drop_sources


def no_pairs_left(source: Path, target: Path, statistics: CorpusStatistics) -> DragomanError:
    """The error of files whose pairs are all left out."""
    return DragomanError(
        f"No pair of {source} and {target} is left for training: {'; '.join(statistics.describe())}."
    )


def scan_corpus(
    files: Files, settings: DataSettings, others: dict[str, frozenset[int]], candidates: HeldOutSources | None
) -> tuple[CorpusStatistics, PairFilter]:
    """Check every line of both files, count pairs, and decide which pairs are for training.

    `others` has the hashes of the sources of other data, by name. `candidates` chooses pairs that are
    held out for validation; None holds out none. Raises `DragomanError` where `read_pairs` and `choose` do.
    """
    statistics = CorpusStatistics(overlap=dict.fromkeys(others, 0), weights=settings.weights())
    statistics.crlf = sum(raw.endswith((b"\r\n", b"\r")) for path in files for raw in raw_lines(path))
    drop_sources = frozenset().union(*others.values()) if settings.drop_overlap else frozenset()
    for source_line, target_line in read_pairs(*files):
        statistics.pairs += 1
        if not source_line.strip() or not target_line.strip():
            statistics.empty += 1
            continue
        statistics.copies += source_line == target_line
        hashed = line_hash(source_line)
        for name, hashes in others.items():
            statistics.overlap[name] += hashed in hashes
        if candidates is not None:
            left_out = "sources of other data left out ({drop_overlap})" if hashed in drop_sources else ""
            if settings.drop_copies and source_line == target_line:
                left_out = "copies left out ({drop_copies})"
            candidates.add(
                hashed, bool(settings.tag(statistics.pairs)), left_out, settings.pair(statistics.pairs)
            )
    held_out = candidates.choose(files[0], statistics.pairs) if candidates is not None else frozenset()
    return statistics, PairFilter(settings.drop_copies, drop_sources, held_out)


def source_hashes(path: Path) -> frozenset[int]:
    """The hashes of a small file's lines that are not blank.

    Raises `DragomanError` where `read_lines` does.
    """
    return frozenset(line_hash(line) for line in read_lines(path) if line.strip())


def sample_pairs(
    source: Path, target: Path, pair_filter: PairFilter, total: int, max_pairs: int
) -> Iterator[tuple[str, str]]:
    """Yield every k-th training pair, so that of `total` pairs at most `max_pairs` are sampled."""
    pairs = (pair for pair in read_pairs(source, target) if pair_filter.keeps(*pair))
    return islice(pairs, 0, None, max(1, -(-total // max_pairs)))


@dataclass(frozen=True)
class Shard:
    """A range of lines of both files, with all that a process needs to encode them."""

    files: Files
    offsets: tuple[int, int]
    """Byte offsets of the first line in both files."""
    first_line: int
    lines: int
    folder: Path
    pair_filter: PairFilter
    tokenizers: tuple[Path, Path]
    settings: DataSettings

    def with_symbol(self, line: int, source: list[int], tokenizer: Tokenizer) -> list[int]:
        """The ids of a line's source after the symbol of its target language, if it has one."""
        symbol = self.settings.symbol(line)
        return [*tokenizer.ids([symbol]), *source] if symbol else source

    def kept_pairs(self) -> Iterator[tuple[int, str, str]]:
        """Yield the pairs for training, with their line numbers and tags."""
        sides = (read_lines(*place, self.first_line) for place in zip(self.files, self.offsets, strict=True))
        pairs = islice(zip(*sides, strict=False), self.lines)
        for number, (source, target) in enumerate(pairs, self.first_line):
            if self.pair_filter.keeps(source, target):
                yield number, self.settings.tag(number) + source, target


def _write_shard(shard: Shard) -> tuple[int, int]:
    """Encode the shard's lines and save their ids; return the numbers of pairs kept and too long."""
    tokenizers = [Tokenizer.load(path) for path in shard.tokenizers]
    dtypes = [np.uint16 if len(tokenizer) <= 2**16 else np.uint32 for tokenizer in tokenizers]
    sides: tuple[list[Ids], list[Ids]] = ([], [])
    line_numbers = []
    too_long = 0
    pairs = shard.kept_pairs()
    while block := list(islice(pairs, BLOCK_LINES)):
        numbers, *texts = zip(*block, strict=True)
        encoded = (tokenizer.encode(lines) for tokenizer, lines in zip(tokenizers, texts, strict=True))
        for number, *pair in zip(numbers, *encoded, strict=True):
            if not all(pair) or 0 < shard.settings.longest < max(map(len, pair)):
                too_long += 1
                continue
            line_numbers.append(number)
            pair[0] = shard.with_symbol(number, pair[0], tokenizers[0])
            for side, ids, dtype in zip(sides, pair, dtypes, strict=True):
                side.append(np.array(ids, dtype=dtype))
    prefix = f"{shard.folder}/{shard.first_line - 1:09}"
    for name, side in zip(("source", "target"), sides, strict=True):
        np.save(f"{prefix}.{name}.npy", np.concatenate(side) if side else np.zeros(0, np.uint16))
        np.save(f"{prefix}.{name}-offsets.npy", np.cumsum([0, *map(len, side)], dtype=np.uint32))
    np.save(f"{prefix}.lines.npy", np.array(line_numbers, np.uint32))
    return len(line_numbers), too_long


def write_corpus(
    folder: Path,
    files: Files,
    tokenizers: tuple[Path, Path],
    settings: DataSettings,
    pair_filter: PairFilter,
    statistics: CorpusStatistics,
    shard_lines: int = SHARD_LINES,
) -> "Corpus":
    """Encode two uncompressed files that `scan_corpus` has checked, and write their ids to `folder`.

    `tokenizers` are saved models. Pairs with more than `settings.longest` tokens on a side are left out,
    unless it is 0. `statistics` gets the numbers of pairs kept and too long. `folder` appears once it is
    complete. Raises `DragomanError` if no pair is left.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    offsets = zip(*(line_offsets(path, shard_lines) for path in files), strict=True)
    shards = [
        Shard(files, pair, n * shard_lines + 1, shard_lines, partial, pair_filter, tokenizers, settings)
        for n, pair in enumerate(offsets)
    ]
    counts = [_write_shard(shards[0])] if len(shards) == 1 else map_in_processes(_write_shard, shards)
    statistics.kept = sum(pairs for pairs, _ in counts)
    statistics.too_long += sum(too_long for _, too_long in counts)
    if not statistics.kept:
        shutil.rmtree(partial)
        raise no_pairs_left(*files, statistics)
    (partial / "corpus.json").write_text(json.dumps(asdict(statistics), indent=2) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return Corpus(folder)


def mapped(path: Path) -> Ids:
    """An array that views a mapped file: slicing a memmap itself is slow. Raises `OSError`, `ValueError`."""
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def read_statistics(path: Path) -> CorpusStatistics:
    """The numbers of corpus.json. Raises `DragomanError` if the file is not as `write_corpus` writes it."""
    statistics = from_table(CorpusStatistics, read_json(path), str(path))
    try:
        check_bounds(statistics, at_least={"kept": 1, "sampled_copies": 1})
    except DragomanError as error:
        raise DragomanError(f"{path}: {error}") from error
    weights = statistics.weights
    if not all(line.isdecimal() and weight >= 0 for line, weight in weights.items()):
        raise DragomanError(f"{path}: weights are {shown(weights)}; they have to be numbers by first lines.")
    if weights and not sum(weights.values()):
        raise DragomanError(f"{path}: the weights sum to 0; one at least has to be above it.")
    return statistics


class Corpus:
    """Pairs of ids in memory-mapped shards: only what is looked at is read.

    Raises `DragomanError` if the folder is not complete.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self.statistics = read_statistics(folder / "corpus.json")
            names = sorted(path.name.split(".")[0] for path in folder.glob("*.source.npy"))
            raise_open_file_limit(5 * len(names))
            self._sides = [
                [self._load_side(folder, name, side) for name in names] for side in ("source", "target")
            ]
            self._line_numbers = [mapped(folder / f"{name}.lines.npy") for name in names]
            self._shard_starts = np.cumsum([0] + [len(offsets) - 1 for _, offsets in self._sides[0]])
            if len(self) != (pairs := self.statistics.kept * self.statistics.sampled_copies):
                raise ValueError(f"it has {len(self):,} pairs, and corpus.json says {pairs:,}")
        except (OSError, ValueError, TypeError) as error:
            raise OptionError(
                "{folder} is not a complete corpus ({reason}); begin again with another {out}.",
                folder=folder,
                reason=reason(error),
            ) from error

    @staticmethod
    def _load_side(folder: Path, name: str, side: str) -> tuple[Ids, Ids]:
        """The ids of a shard's side, and the offset of each sentence in them."""
        return mapped(folder / f"{name}.{side}.npy"), mapped(folder / f"{name}.{side}-offsets.npy")

    def __len__(self) -> int:
        return int(self._shard_starts[-1])

    def __getitem__(self, pair: int) -> tuple[Ids, Ids]:
        """Source and target ids [S], [T] of a pair, without START and END."""
        shard, row = self._locate(pair)
        source, target = (
            ids[offsets[row] : offsets[row + 1]] for ids, offsets in (side[shard] for side in self._sides)
        )
        return source, target

    def pairs_of_epoch(self, seed: int, epoch: int) -> Ids:
        """The pairs of an epoch: each pair once; with several corpora, as many as their weights say.

        An epoch uses one of the sampled copies.
        """
        if self.statistics.weights or self.statistics.sampled_copies > 1:
            from dragoman.text.mixing import pairs_of_epoch

            return pairs_of_epoch(self.statistics, np.concatenate(self._line_numbers), seed, epoch)
        return np.arange(len(self))

    def line_number(self, pair: int) -> int:
        """The line of the text files that a pair was read from, counted from 1."""
        shard, row = self._locate(pair)
        return int(self._line_numbers[shard][row])

    def _locate(self, pair: int) -> tuple[int, int]:
        """The shard of a pair and its row there."""
        shard = int(np.searchsorted(self._shard_starts, pair, side="right")) - 1
        return shard, pair - int(self._shard_starts[shard])

    def lengths(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The numbers of source and target tokens of every pair."""
        source, target = (
            np.concatenate([np.diff(offsets).astype(np.int32) for _, offsets in side]) for side in self._sides
        )
        return source, target
