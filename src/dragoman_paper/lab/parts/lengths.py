"""Sentence pairs of random lengths, and the padding of their batches."""

import numpy as np

from dragoman.text.corpus import Corpus


class Lengths(Corpus):
    """A corpus of lengths alone: log-normal with this standard deviation, a target's about its source's."""

    def __init__(self, pairs: int, seed: int, deviation: float = 0.6) -> None:
        generator = np.random.default_rng(seed)
        source = generator.lognormal(np.log(20), deviation, pairs).clip(1, 150).round()
        target = (source * generator.lognormal(0, 0.15, pairs)).clip(1, 150).round()
        self.both = source.astype(np.int64), target.astype(np.int64)

    def __len__(self) -> int:
        return len(self.both[0])

    def pairs_of_epoch(self, seed: int, epoch: int) -> np.ndarray:
        return np.arange(len(self))

    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        return self.both


def padding(batches: list[np.ndarray], lengths: tuple[np.ndarray, np.ndarray]) -> float:
    """The share of padding in batches of these pairs, both sides together."""
    real = sum(int(side[pairs].sum()) for side in lengths for pairs in batches)
    padded = sum(int(side[pairs].max()) * len(pairs) for side in lengths for pairs in batches)
    return 1 - real / padded


def in_random_order(lengths: tuple[np.ndarray, np.ndarray], cap: int, seed: int) -> list[np.ndarray]:
    """Batches of shuffled pairs, each as large as the cap allows."""
    order, batches, first = np.random.default_rng(seed).permutation(len(lengths[0])), [], 0
    longest = np.maximum(*lengths)[order]
    while first < len(order):
        most = np.maximum.accumulate(longest[first : first + cap])
        count = int((most * np.arange(1, len(most) + 1) <= cap).sum())
        batches.append(order[first : first + count])
        first += count
    return batches
