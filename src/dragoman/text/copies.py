"""Sampled copies of a corpus: its pairs are encoded several times, and epochs use the copies in turn.

All copies are written when the text is prepared, so training reads ids as usual, and a resumed run equals an
uninterrupted one.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np

from dragoman.system.processors import map_in_processes
from dragoman.text.corpus import SHARD_LINES, Corpus, Files, PairFilter, Shard
from dragoman.text.lines import line_offsets
from dragoman.text.settings import DataSettings
from dragoman.text.tokenizer import Tokenizer

SIDES = "source", "target"
SampleIds = Callable[[int, int, str, str], tuple[Sequence[int] | None, Sequence[int] | None]]
"""The ids of both sides of a pair, from the number of the copy, that of the line, and the texts. None for the
ordinary ids."""


class PairSampler(Protocol):
    """Samples the ids of pairs. It is sent to other processes."""

    def open(self, tokenizers: Sequence[Tokenizer]) -> SampleIds:
        """The function that samples, for a process that has read the tokenizers."""
        ...


@dataclass(frozen=True)
class _Copy:
    """One copy of a shard of the corpus, with all that a process needs to write it."""

    shard: Shard
    number: int
    sampler: PairSampler


def _write_copy(copy: _Copy) -> None:
    """Sample the ids of a shard's lines and save them.

    A side has its ordinary ids where the sample is longer than `longest`.
    """
    shard = copy.shard
    name = f"{shard.first_line - 1:09}"
    prefix = f"{shard.folder}/copy{copy.number:03}-{name}"
    numbers = np.load(shard.folder / f"{name}.lines.npy")
    line_numbers = set(numbers.tolist())
    longest = shard.settings.longest or math.inf
    tokenizers = [Tokenizer.load(path) for path in shard.tokenizers]
    sample = copy.sampler.open(tokenizers)
    ordinary = [np.load(shard.folder / f"{name}.{side}.npy") for side in SIDES]
    offsets = [np.load(shard.folder / f"{name}.{side}-offsets.npy") for side in SIDES]
    pairs = (pair for pair in shard.kept_pairs() if pair[0] in line_numbers)
    rows: list[list[np.ndarray]] = [[], []]
    for (line, *texts), *spans in zip(pairs, *map(pairwise, offsets), strict=True):
        for side, (ids, (first, last)) in enumerate(
            zip(sample(copy.number, line, *texts), spans, strict=True)
        ):
            if ids is None or len(ids) > longest:
                rows[side].append(ordinary[side][first:last])
                continue
            read = shard.with_symbol(line, list(ids), tokenizers[0]) if side == 0 else ids
            rows[side].append(np.array(read, ordinary[side].dtype))
    for name, side_rows, empty in zip(SIDES, rows, ordinary, strict=True):
        np.save(f"{prefix}.{name}.npy", np.concatenate(side_rows) if side_rows else empty)
        np.save(f"{prefix}.{name}-offsets.npy", np.cumsum([0, *map(len, side_rows)], dtype=np.uint32))
    np.save(f"{prefix}.lines.npy", numbers)


def write_copies(
    new: Path,
    files: Files,
    tokenizers: tuple[Path, Path],
    data: DataSettings,
    sampler: PairSampler,
    count: int,
    shard_lines: int = SHARD_LINES,
) -> None:
    """Replace the corpus `new / "train"`, which `write_corpus` has just written, by `count` sampled copies.

    The other arguments are those of `write_corpus`. Every copy has the same pairs in the same order.
    """
    folder = new / "train"
    ordinary, statistics = list(folder.glob("*.npy")), Corpus(folder).statistics
    offsets = zip(*(line_offsets(path, shard_lines) for path in files), strict=True)
    keep_all = PairFilter()  # `write_corpus` has chosen the pairs
    shards = [
        Shard(files, pair, n * shard_lines + 1, shard_lines, folder, keep_all, tokenizers, data)
        for n, pair in enumerate(offsets)
    ]
    map_in_processes(
        _write_copy, [_Copy(shard, number, sampler) for number in range(count) for shard in shards]
    )
    for path in ordinary:
        path.unlink()
    statistics.sampled_copies = count
    (folder / "corpus.json").write_text(json.dumps(asdict(statistics), indent=2) + "\n")
