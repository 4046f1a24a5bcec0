"""Learning curves: BLEU against the size of the corpus. This module is data.

Every size has the same number of updates at most: a model of little text makes many passes, is validated
often, and the weights with the lowest validation loss are kept, or the last ones. With the same number of
passes instead, little text would have few updates, and the curve would show too short a training.
"""

from dragoman_paper.tables.baselines import ROWS, Trial, own_sizes
from dragoman_paper.tables.rows import Scale, Table

SETTINGS = Trial(0.002, 0.1)
"""Of every row and size: what Table 3 has at these scales."""
SIZES = (1_000, 4_000, 16_000, 64_000)
"""Pairs of a training corpus, if there are more; the whole corpus comes last."""
VALIDATIONS, PATIENCE = 15, 5
TOKENS_PER_ROOT = 40
"""The vocabulary has this many tokens for each unit of the square root of the pairs, as `dragoman train`."""
DRAW = 1
"""The seed of the order of pairs, whose beginnings are the smaller corpora."""

CURVES = Table(
    "learning-curves",
    "Learning curves: BLEU against the size of the corpus",
    tuple(row for row in ROWS if row.name in ("transformer", "lstm", "conv")),
    (own_sizes("multi30k"), own_sizes("tatoeba")),
)


def vocabulary(scale: Scale, pairs: int) -> int:
    """Tokens of the vocabulary that is learned from this many pairs: at least 400, at most the scale's."""
    return min(scale.vocabulary, max(400, round(TOKENS_PER_ROOT * pairs**0.5)))
