"""When measured numbers of two models count as different: the two rules of lab/README.md."""

from collections.abc import Sequence


def higher_for_each_seed(ones: Sequence[float], others: Sequence[float]) -> bool:
    """The rule for two uses of one model, and for two trainings from the same initial weights.

    Each sequence has a number for each seed, in the same order.
    """
    return all(one > other for one, other in zip(ones, others, strict=True))


def range_above(ones: Sequence[float], others: Sequence[float]) -> bool:
    """The rule for models that are trained separately: the least of the ones is above all others."""
    return min(ones) > max(others)
