"""Batches by approximate length (section 5.1), with one cap on source and one on target tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.symbols import END, PAD, START
from dragoman.system.errors import DragomanError
from dragoman.text.corpus import Corpus

Pairs = npt.NDArray[np.int64]
POOL = 2**17  # pairs that are shuffled, sorted by length and cut into batches together
PAIRS_MULTIPLE, ROWS_MULTIPLE = (
    8,
    64,
)  # of which the numbers of pairs and of predictions are: every shape of a matrix costs a kernel


@dataclass(frozen=True)
class Batch:
    """Ids of B pairs, padded.

    The decoder reads `target_in` (START first) and predicts `target_out` (END last).
    """

    source: Int[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    places: Int[Tensor, "M"]
    """Which of the B · T predictions are of a token: found on the host, so that a GPU need not be asked. Then
    come some of padding, if there are any, up to a multiple of `ROWS_MULTIPLE`."""
    tokens: int
    """Target tokens to predict, N, padding excluded."""
    pairs: list[int]

    @classmethod
    def of(cls, source: Int[Tensor, "B S"], target_out: Int[Tensor, "B T"], pairs: list[int]) -> "Batch":
        """The batch of padded rows that end with END."""
        before = target_out.roll(1, 1)
        before[:, 0] = START
        padding = (target_out == PAD).flatten()
        places, others = (~padding).nonzero().flatten(), padding.nonzero().flatten()
        tokens = len(places)
        places = torch.cat([places, others[: -tokens % ROWS_MULTIPLE]])
        return cls(source, before.masked_fill(before == END, PAD), target_out, places, tokens, pairs)

    @property
    def gold(self) -> Int[Tensor, "N"]:
        """The tokens to predict, row after row."""
        return self.target_out.flatten().index_select(0, self.places[: self.tokens])

    def halves(self) -> list["Batch"]:
        """Every second pair, and the others: two batches with the gradient of this one."""
        return [
            Batch.of(self.source[first::2], self.target_out[first::2], self.pairs[first::2])
            for first in (0, 1)
        ]

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device; from pinned memory the copy does not make the host wait."""
        if device.type == "cpu":
            return self
        return self._each(lambda ids: ids.to(device, non_blocking=True))

    def pinned(self) -> "Batch":
        """The batch in memory that a GPU can read by itself."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(
            change(self.source),
            change(self.target_in),
            change(self.target_out),
            change(self.places),
            self.tokens,
            self.pairs,
        )


@dataclass(frozen=True)
class Update:
    """The work of one update: this process's batches, and the target tokens of all processes."""

    epoch: int
    batches_done: int
    """Batches of the epoch that are done after it."""
    batches: list[Batch]
    tokens: int


def pad(rows: Sequence[Sequence[int] | npt.NDArray[np.integer]], *end: int) -> Int[Tensor, "B N"]:
    """Rows of ids, with `end` after each, as one matrix, filled up with PAD on the right."""
    padded = np.full((len(rows), max(map(len, rows)) + len(end)), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
        padded[number, len(row) : len(row) + len(end)] = end
    return torch.from_numpy(padded)


class Batches:
    """The batches of a corpus, epoch by epoch.

    Which there are, and their order, depends on the seed and the epoch alone.

    An update is `accumulate` batches, however many processes (`ranks`) share its work; none of them gets more
    than `max_tokens` tokens of a side at once. Source rows end with END. Raises `DragomanError` if a pair is
    longer than a batch may be.
    """

    def __init__(
        self,
        corpus: Corpus,
        source_tokens: int,
        target_tokens: int,
        seed: int,
        accumulate: int = 1,
        max_tokens: int | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self.corpus, self.seed, self.accumulate, self.max_tokens, self.rank, self.ranks = (
            corpus,
            seed,
            accumulate,
            max_tokens,
            rank,
            ranks,
        )
        self.caps = source_tokens, target_tokens
        source, target = corpus.lengths()
        self.lengths = source + 1, target + 1
        for name, cap, lengths in zip(("source", "target"), self.caps, self.lengths, strict=True):
            if lengths.max() > cap:
                raise DragomanError(
                    f"A training pair has {lengths.max()} {name} tokens, and a batch may have {cap}. Raise "
                    f"{name}_tokens_per_batch, or lower longest to leave such pairs out."
                )
        self._plan: tuple[int, list[Pairs]] = (-1, [])

    def plan(self, epoch: int) -> list[Pairs]:
        """The pairs of each batch, for all processes together."""
        if self._plan[0] != epoch:
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.corpus))
            batches = [
                batch
                for first in range(0, len(order), POOL)
                for batch in self._cut(order[first : first + POOL])
            ]
            random.shuffle(batches)
            self._plan = epoch, batches
        return self._plan[1]

    def _cut(self, pool: Pairs) -> Iterator[Pairs]:
        """Sort a pool by length, ties at random, and cut it into the largest batches under both caps, padding
        included.

        Sources grow with one target length and shrink with the next, so that a batch of two target lengths
        has like sources. Numbers of pairs are multiples of `PAIRS_MULTIPLE`, but for small batches and the
        last.
        """
        source, target = (lengths[pool] for lengths in self.lengths)
        order = np.lexsort((np.where(target % 2, -source, source), target))
        pool, source, target = pool[order], source[order], target[order]
        first = 0
        while first < len(pool):
            most = min(self.caps[0] // source[first], self.caps[1] // target[first])
            rows = np.arange(1, min(most, len(pool) - first) + 1)
            here = slice(first, first + len(rows))
            fits = (rows * np.maximum.accumulate(source[here]) <= self.caps[0]) & (
                rows * target[here] <= self.caps[1]
            )
            count = len(rows) if fits.all() else int(fits.argmin())
            if PAIRS_MULTIPLE < count < len(pool) - first:
                count -= count % PAIRS_MULTIPLE
            yield pool[first : first + count]
            first += count

    def share(self, update: list[Pairs], rank: int) -> list[Pairs]:
        """A rank's part of an update: whole batches where there are enough, else every so-many-th pair of
        each.

        Batches are dealt out from the fullest to the emptiest, by turns there and back. A batch is sorted by
        length, so that its parts have nearly the same number of tokens; who gets the longest changes.
        """
        if len(update) % self.ranks == 0:
            fullest = sorted(
                range(len(update)), key=lambda number: -int(self.lengths[1][update[number]].sum())
            )
            turns = [*range(self.ranks), *reversed(range(self.ranks))]
            mine = {number for place, number in enumerate(fullest) if turns[place % len(turns)] == rank}
            share = [pairs for number, pairs in enumerate(update) if number in mine]
        else:
            share = [
                part
                for pairs in update
                if len(part := pairs[(rank + int(pairs[0])) % self.ranks :: self.ranks])
            ]
        return [part for pairs in share for part in self.split_pairs(pairs)]

    def split_pairs(self, pairs: Pairs) -> list[Pairs]:
        """The pairs in the fewest parts of at most `max_tokens` tokens each, padding included."""
        if self.max_tokens is None:
            return [pairs]
        longest = max(int(lengths[pairs].max()) for lengths in self.lengths)
        count = min(len(pairs), -(-len(pairs) // max(1, self.max_tokens // longest)))
        return [pairs[first::count] for first in range(count)]

    def load(self, pairs: Pairs | Sequence[int]) -> Batch:
        """The ids of these pairs."""
        numbers = [int(pair) for pair in pairs]
        sources, targets = zip(*(self.corpus[pair] for pair in numbers), strict=True)
        return Batch.of(pad(sources, END), pad(targets, END), numbers)

    def after(self, epoch: int, done: int) -> Iterator[Update]:
        """Updates without end, from the one after the first `done` batches of `epoch`."""
        planned = self._planned(epoch, done)
        while True:
            update = list(islice(planned, self.accumulate))
            tokens = sum(int(self.lengths[1][pairs].sum()) for *_, pairs in update)
            shares = [self.share([pairs for *_, pairs in update], rank) for rank in range(self.ranks)]
            batches = [self.load(pairs) for pairs in shares[self.rank]]
            batches += [self._empty_batch()] * (
                max(map(len, shares)) - len(batches)
            )  # processes compute in step with each other
            yield Update(*update[-1][:2], batches, tokens)

    def _planned(self, epoch: int, done: int) -> Iterator[tuple[int, int, Pairs]]:
        """The pairs of each batch without end, with the epoch and the batches of it that are done then."""
        while True:
            for number, pairs in enumerate(self.plan(epoch)[done:], done + 1):
                yield epoch, number, pairs
            epoch, done = epoch + 1, 0

    def _empty_batch(self) -> Batch:
        """A batch without tokens to predict, for a rank without pairs in an update: its gradient is zero."""
        batch = self.load([0])
        return Batch.of(batch.source, torch.full_like(batch.target_out, PAD), [])
