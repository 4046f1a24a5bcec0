"""Batches by approximate length (section 5.1), with one cap on source and one on target tokens."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from dragoman.model.symbols import END, PAD, START
from dragoman.system.errors import OptionError
from dragoman.text.corpus import Corpus
from dragoman.text.shares import Pairs, share_batches

POOL_PAIRS = 2**17  # pairs that are sorted by length and cut into batches together
# The number of pairs of a batch, and of its predictions, is rounded to a multiple: kernels are compiled or
# chosen for each shape of a matrix, so few shapes are faster.
PAIRS_MULTIPLE = 8
PREDICTIONS_MULTIPLE = 64


@dataclass(frozen=True)
class Batch:
    """Padded ids of B pairs.

    The decoder reads `target_in`, which begins with START, and predicts `target_out`, which ends with END.
    """

    source: Int[Tensor, "B S"]
    target_in: Int[Tensor, "B T"]
    target_out: Int[Tensor, "B T"]
    prediction_indices: Int[Tensor, "M"]
    """Indices into the B · T flattened predictions: first the N of tokens, then some of padding, up to a
    multiple of `PREDICTIONS_MULTIPLE`. They are computed on the CPU, because a GPU would have to be waited
    for."""
    tokens: int
    """N, the number of target tokens to predict, without padding."""
    pairs: list[int]
    """Indices of the pairs in the corpus."""

    @classmethod
    def of(cls, source: Int[Tensor, "B S"], target_out: Int[Tensor, "B T"], pairs: list[int]) -> "Batch":
        """Make a batch from padded rows that end with END."""
        target_in = target_out.roll(1, 1)
        target_in[:, 0] = START
        target_in = target_in.masked_fill(target_in == END, PAD)
        is_padding = (target_out == PAD).flatten()
        indices, padding = (~is_padding).nonzero().flatten(), is_padding.nonzero().flatten()
        tokens = len(indices)
        indices = torch.cat([indices, padding[: -tokens % PREDICTIONS_MULTIPLE]])
        return cls(source, target_in, target_out, indices, tokens, pairs)

    @property
    def gold(self) -> Int[Tensor, "N"]:
        """The tokens to predict, row after row."""
        return self.predictions(self.target_out)[: self.tokens]

    def predictions(self, positions: Shaped[Tensor, "B T *D"]) -> Shaped[Tensor, "M *D"]:
        """The rows of `positions`, which has one for each target position, at `prediction_indices`."""
        flat = positions.flatten(0, 1)
        if self.tokens == len(flat):  # without padding they are all indices in order
            return flat
        return flat.index_select(0, self.prediction_indices)

    def halves(self) -> list["Batch"]:
        """Two batches, of the pairs at even and at odd places: their gradients add up to this batch's."""
        return [
            Batch.of(self.source[first::2], self.target_out[first::2], self.pairs[first::2])
            for first in (0, 1)
        ]

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device. The copy from pinned memory to a GPU is asynchronous."""
        return self._apply(lambda ids: ids.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """The batch in page-locked memory, from which copies to a GPU are asynchronous."""
        return self._apply(Tensor.pin_memory)

    def _apply(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        """The batch with a function applied to each tensor."""
        tensors = self.source, self.target_in, self.target_out, self.prediction_indices
        source, target_in, target_out, indices = map(function, tensors)
        return Batch(source, target_in, target_out, indices, self.tokens, self.pairs)


@dataclass(frozen=True)
class Update:
    """The batches that one process computes for an update."""

    epoch: int
    batches_done: int
    """Batches of the epoch that are done after this update."""
    batches: list[Batch]
    tokens: int
    """Target tokens of the update in all processes."""


def pad(rows: Sequence[Sequence[int] | npt.NDArray[np.integer]], *end: int) -> Int[Tensor, "B N"]:
    """Append `end` to each row of ids, and pad the rows on the right to one matrix."""
    padded = np.full((len(rows), max(map(len, rows)) + len(end)), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
        padded[number, len(row) : len(row) + len(end)] = end
    return torch.from_numpy(padded)


class Batches:
    """The batches of a corpus, epoch by epoch; they depend on the seed and the epoch alone.

    A batch has at most `source_tokens` and `target_tokens` tokens, END and padding included. An update is
    `accumulate` batches, which `ranks` processes share. A process computes at most `micro_batch_tokens` of a
    side at once, unless it is None. Raises `DragomanError` if a pair is longer than a batch may be.
    """

    def __init__(
        self,
        corpus: Corpus,
        source_tokens: int,
        target_tokens: int,
        seed: int,
        accumulate: int = 1,
        micro_batch_tokens: int | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self.corpus, self.seed, self.accumulate = corpus, seed, accumulate
        self.micro_batch_tokens, self.rank, self.ranks = micro_batch_tokens, rank, ranks
        self.caps = source_tokens, target_tokens
        source, target = corpus.lengths()
        self.lengths = source + 1, target + 1
        for name, cap, lengths in zip(("source", "target"), self.caps, self.lengths, strict=True):
            if lengths.max() > cap:
                raise OptionError(
                    f"A training pair has {lengths.max()} {name} tokens, and a batch may have {cap}. Raise "
                    f"{{{name}_tokens_per_batch}}, or lower {{longest}} to leave such pairs out."
                )
        self._plan: tuple[int, list[Pairs]] = (-1, [])  # of the epoch that was asked for last

    def plan(self, epoch: int) -> list[Pairs]:
        """The pairs of each batch of an epoch, for all processes together."""
        if self._plan[0] != epoch:
            generator = np.random.default_rng([self.seed, epoch])
            order = generator.permutation(self.corpus.pairs_of_epoch(self.seed, epoch))
            pools = (order[first : first + POOL_PAIRS] for first in range(0, len(order), POOL_PAIRS))
            batches = [batch for pool in pools for batch in self._cut_by_length(pool)]
            generator.shuffle(batches)
            self._plan = epoch, batches
        return self._plan[1]

    def _cut_by_length(self, pool: Pairs) -> Iterator[Pairs]:
        """Sort shuffled pairs by length, and cut them into the largest batches under both caps.

        Pairs of one target length are sorted by increasing source length, those of the next by decreasing
        source length: a batch of two target lengths has sources of similar length. The number of pairs is a
        multiple of `PAIRS_MULTIPLE`, except in small batches and the last one.
        """
        source, target = (lengths[pool] for lengths in self.lengths)
        order = np.lexsort((np.where(target % 2, -source, source), target))
        pool, source, target = pool[order], source[order], target[order]
        first = 0
        while first < len(pool):
            max_rows = min(self.caps[0] // source[first], self.caps[1] // target[first])
            rows = np.arange(1, min(max_rows, len(pool) - first) + 1)
            window = slice(first, first + len(rows))
            padded = rows * np.maximum.accumulate(source[window]), rows * target[window]
            fits = (padded[0] <= self.caps[0]) & (padded[1] <= self.caps[1])
            count = len(rows) if fits.all() else int(fits.argmin())
            if PAIRS_MULTIPLE < count < len(pool) - first:
                count -= count % PAIRS_MULTIPLE
            yield pool[first : first + count]
            first += count

    def share(self, update: list[Pairs], rank: int) -> list[Pairs]:
        """The part of an update's batches that a rank computes, cut by `split_pairs`."""
        if self.ranks > 1:
            update = share_batches(update, self.lengths[1], rank, self.ranks)
        return [part for pairs in update for part in self.split_pairs(pairs)]

    def split_pairs(self, pairs: Pairs) -> list[Pairs]:
        """Split the pairs into the fewest parts of at most `micro_batch_tokens` a side, with padding.

        A part has at least one pair.
        """
        if self.micro_batch_tokens is None:
            return [pairs]
        longest = max(int(lengths[pairs].max()) for lengths in self.lengths)
        count = min(len(pairs), -(-len(pairs) // max(1, self.micro_batch_tokens // longest)))
        return [pairs[first::count] for first in range(count)]

    def load(self, pairs: Pairs | Sequence[int]) -> Batch:
        """Read the ids of these pairs, and pad them to a batch."""
        indices = [int(pair) for pair in pairs]
        sources, targets = zip(*(self.corpus[pair] for pair in indices), strict=True)
        return Batch.of(pad(sources, END), pad(targets, END), indices)

    def updates(self, epoch: int, batches_done: int) -> Iterator[Update]:
        """Yield updates without end, beginning after the first `batches_done` batches of `epoch`."""
        planned = self._planned_batches(epoch, batches_done)
        while True:
            update = list(islice(planned, self.accumulate))
            tokens = sum(int(self.lengths[1][pairs].sum()) for *_, pairs in update)
            shares = [self.share([pairs for *_, pairs in update], rank) for rank in range(self.ranks)]
            batches = [self.load(pairs) for pairs in shares[self.rank]]
            # Every rank computes the same number of batches, because ranks communicate at each.
            batches += [self._empty_batch()] * (max(map(len, shares)) - len(batches))
            yield Update(*update[-1][:2], batches, tokens)

    def _planned_batches(self, epoch: int, batches_done: int) -> Iterator[tuple[int, int, Pairs]]:
        """Yield batches without end: the epoch, the number of its batches up to this one, and the pairs."""
        while True:
            for number, pairs in enumerate(self.plan(epoch)[batches_done:], batches_done + 1):
                yield epoch, number, pairs
            epoch, batches_done = epoch + 1, 0

    def _empty_batch(self) -> Batch:
        """A batch without tokens to predict, for a rank that has fewer batches: its gradient is zero."""
        batch = self.load([0])
        return Batch.of(batch.source, torch.full_like(batch.target_out, PAD), [])
