"""Figures of the paper that belong to no row of a table. This module is data.

Source: Vaswani et al. (2017), sections 5 and 6, Table 2.
"""

from dataclasses import dataclass

from dragoman.search.settings import EXTRA_TOKENS, SearchSettings

P100_FLOPS = 9.5e12
"""Sustained single-precision floating-point operations per second of a P100 (section 6.1, footnote 5)."""
PAPER_GPUS = 8
PAPER_VOCABULARY, PAPER_VOCABULARY_FRENCH = 37_000, 32_000
PAPER_TOKENS = 25_000
"""Source tokens of a batch, and target tokens (section 5.1)."""
PAPER_SEARCH = SearchSettings(max_extra_tokens=EXTRA_TOKENS, min_length=0)
"""The beam search of section 6.1, which says nothing of a least length."""
FORWARD_AND_BACKWARD = 3
"""Of the multiply-adds of a forward pass: a backward pass has two products for each."""
FLOPS_PER_MULTIPLY_ADD = 2


@dataclass(frozen=True)
class TrainingRun:
    """One of the paper's two trainings (section 5.2)."""

    updates: int
    seconds_per_update: float
    hours: float
    flops: float
    """As Table 2 prints it."""


TRAINING_RUNS = {
    "base": TrainingRun(100_000, 0.4, 12, 3.3e18),
    "big": TrainingRun(300_000, 1.0, 84, 2.3e19),
}

TABLE_2 = {
    "Transformer (base model)": (27.3, 38.1),
    "Transformer (big)": (28.4, 41.8),
}
"""BLEU on newstest2014, English to German and to French."""

FRENCH_BLEU = (
    "The paper gives two figures for big, English to French: 41.8 in the abstract and Table 2, 41.0 in the "
    "text of section 6.1. Early abstracts have 41.0 and, with 27.5 for English to German, 41.1, "
    "which some catalogues still print."
)


def estimated_flops(hours: float, gpus: int, flops: float = P100_FLOPS) -> float:
    """Training cost by the paper's estimate: time · GPUs · sustained operations per second (section 6.1)."""
    return 3600 * hours * gpus * flops
