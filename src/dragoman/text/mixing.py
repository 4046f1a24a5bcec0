"""How corpora are mixed: their shares are exact, and depend on the seed and the epoch alone.

The pairs of a corpus are used in shuffled passes, one after the other, from epoch to epoch. A pair is used
again only when every other pair of its corpus has been used as often.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.text.corpus import CorpusStatistics

Indices = npt.NDArray[np.int64]


def mix(sizes: Sequence[int], weights: Sequence[float], pairs: int, seed: int, epoch: int) -> Indices:
    """The pairs of an epoch, about `pairs` in number, corpus by corpus.

    Pairs are counted through the corpora, of these `sizes`, which follow each other. After every epoch each
    corpus has had its share of all pairs so far, to within one pair.
    """
    starts = np.cumsum([0, *sizes])
    drawn = [
        starts[corpus]
        + shuffled_passes(size, *places(pairs * (weight / sum(weights)), epoch), (seed, corpus))
        for corpus, (size, weight) in enumerate(zip(sizes, weights, strict=True))
    ]
    return np.concatenate(drawn)


def places(per_epoch: float, epoch: int) -> tuple[int, int]:
    """The range of an epoch's pairs in the endless sequence of a corpus with `per_epoch` pairs per epoch."""
    return round(per_epoch * epoch), round(per_epoch * (epoch + 1))


def shuffled_passes(size: int, first: int, last: int, key: tuple[int, int]) -> Indices:
    """Places `first` to `last` of an endless sequence of passes over `size` pairs, each in another order."""
    if first == last:
        return np.zeros(0, np.int64)
    passes = range(first // size, -(-last // size))
    # The 1 keeps the key apart from that of an epoch, which is shorter.
    orders = [np.random.default_rng([*key, number, 1]).permutation(size) for number in passes]
    return np.concatenate(orders)[first - passes[0] * size : last - passes[0] * size]


def pairs_of_epoch(
    statistics: "CorpusStatistics", lines: npt.NDArray[np.integer], seed: int, epoch: int
) -> Indices:
    """The pairs of an epoch of a corpus that has weights, sampled copies of its pairs, or both.

    `lines` are those of all its pairs in the text. Epochs use the copies in turn. Raises `DragomanError`
    where `draw_by_weight` does.
    """
    size = len(lines) // statistics.sampled_copies
    first = epoch % statistics.sampled_copies * size
    if not statistics.weights:
        return np.arange(first, first + size)
    return first + draw_by_weight(statistics.weights, lines[:size], seed, epoch)


def draw_by_weight(
    weights: Mapping[str, float], lines: npt.NDArray[np.integer], seed: int, epoch: int
) -> Indices:
    """The pairs of an epoch of corpora that follow each other in one text.

    `weights` are by the first line of a corpus in the text, and `lines` are those of the pairs. An epoch has
    as many pairs as the corpora with a weight have together. Raises `DragomanError` for a corpus that has a
    weight and no pair.
    """
    starts = [*np.searchsorted(lines, [int(first) for first in weights]), len(lines)]
    sizes = [int(end - start) for start, end in pairwise(starts)]
    for number, (size, weight) in enumerate(zip(sizes, weights.values(), strict=True), 1):
        if weight and not size:
            raise DragomanError(
                f"No pair of corpus {number} is left for training, and its weight is {weight:g}; leave the "
                "corpus out."
            )
    pairs = sum(size for size, weight in zip(sizes, weights.values(), strict=True) if weight)
    return mix(sizes, list(weights.values()), pairs, seed, epoch)
