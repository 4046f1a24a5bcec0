"""Batches by approximate length (section 5.1), under one cap on source tokens and another on target tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.errors import DragomanError
from dragoman.model.symbols import END, PAD, START
from dragoman.text.corpus import Corpus

POOL = 2**17  # pairs that are shuffled, sorted by length and cut into batches together


@dataclass(frozen=True)
class Batch:
    """Ids of B pairs, padded. The decoder reads `target_in` (START first) and predicts `target_out` (END last)."""

    source: Int[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    pairs: list[int]

    @property
    def tokens(self) -> int:
        """Target tokens to predict, padding excluded."""
        return int((self.target_out != PAD).sum())

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device."""
        source, target_in, target_out = (ids.to(device, non_blocking=True) for ids in (self.source, self.target_in, self.target_out))
        return Batch(source, target_in, target_out, self.pairs)


def pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B N"]:
    """Rows of ids as one matrix, filled up with PAD on the right."""
    padded = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return torch.from_numpy(padded)


class Batches:
    """The batches of a corpus, epoch by epoch. Which there are, and their order, depends on the seed and the epoch alone.

    `ranks` processes get disjoint batches, each the same number. Source rows end with END. Raises `DragomanError` where a pair
    is longer than a batch may be, and where there are fewer batches than ranks.
    """

    def __init__(self, corpus: Corpus, source_tokens: int, target_tokens: int, seed: int, rank: int = 0, ranks: int = 1) -> None:
        self.corpus, self.seed, self.rank, self.ranks = corpus, seed, rank, ranks
        self.caps = source_tokens, target_tokens
        source, target = corpus.lengths()
        self.lengths = source + 1, target + 1
        for name, cap, lengths in zip(("source", "target"), self.caps, self.lengths, strict=True):
            if lengths.max() > cap:
                raise DragomanError(
                    f"A training pair has {lengths.max()} {name} tokens, and a batch may have {cap}. Raise "
                    f"{name}_tokens_per_batch, or lower longest to leave such pairs out."
                )
        self._plan: tuple[int, list[npt.NDArray[np.int64]]] = (-1, [])

    def plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        """The pairs of each of this rank's batches."""
        if self._plan[0] != epoch:
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.corpus))
            batches = [batch for first in range(0, len(order), POOL) for batch in self._cut(order[first : first + POOL])]
            random.shuffle(batches)
            if len(batches) < self.ranks:
                raise DragomanError(f"The corpus makes {len(batches)} batches, too few for {self.ranks} processes; make batches smaller.")
            self._plan = epoch, batches[: len(batches) // self.ranks * self.ranks][self.rank :: self.ranks]
        return self._plan[1]

    def _cut(self, pool: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
        """Sort a pool by length, ties at random, and cut it into the largest batches under both caps, padding included."""
        source, target = (lengths[pool] for lengths in self.lengths)
        order = np.lexsort((source, target))
        pool, source, target = pool[order], source[order], target[order]
        first = 0
        while first < len(pool):
            most = min(self.caps[0] // source[first], self.caps[1] // target[first])
            rows = np.arange(1, min(most, len(pool) - first) + 1)
            here = slice(first, first + len(rows))
            fits = (rows * np.maximum.accumulate(source[here]) <= self.caps[0]) & (rows * target[here] <= self.caps[1])
            count = len(rows) if fits.all() else int(fits.argmin())
            yield pool[first : first + count]
            first += count

    def load(self, pairs: npt.NDArray[np.int64] | Sequence[int]) -> Batch:
        """The ids of these pairs."""
        numbers = [int(pair) for pair in pairs]
        ids = [[side.tolist() for side in self.corpus[pair]] for pair in numbers]
        return Batch(
            source=pad([[*source, END] for source, _ in ids]),
            target_in=pad([[START, *target] for _, target in ids]),
            target_out=pad([[*target, END] for _, target in ids]),
            pairs=numbers,
        )

    def after(self, epoch: int, done: int) -> Iterator[tuple[int, int, Batch]]:
        """Batches without end, from the one after the first `done` of `epoch`; with each, the epoch and the batches done."""
        while True:
            for number, pairs in enumerate(self.plan(epoch)[done:], done + 1):
                yield epoch, number, self.load(pairs)
            epoch, done = epoch + 1, 0
