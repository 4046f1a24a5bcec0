"""Hypotheses: their maximum length and their score (section 6.1). This module imports no torch."""

from dataclasses import dataclass
from typing import TypeVar

from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError

Number = TypeVar("Number")  # a float, or an array or tensor of them
NON_FINITE = (
    "The model's probabilities are not finite: its training diverged, or its weights were damaged before "
    "they were saved."
)


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its ids without START and END, its log-probability in nats, its score.

    The log-probability includes END's.
    """

    ids: list[int]
    log_probability: float
    score: float


def length_penalty(length: Number, alpha: float) -> Number:
    """lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); |Y| counts END."""
    return ((5 + length) / 6) ** alpha  # type: ignore[operator]


def normalizer(length: Number, settings: SearchSettings) -> Number:
    """The divisor of a log-probability that gives the score.

    It is `length_penalty`, or |Y|^β with `length_power`.
    """
    if settings.length_power is not None:
        return length**settings.length_power  # type: ignore[operator]
    return length_penalty(length, settings.length_penalty)


def scored(ids: list[int], log_p: float, settings: SearchSettings) -> Hypothesis:
    """A finished hypothesis of these ids, without START and END."""
    return Hypothesis(ids, log_p, log_p / normalizer(len(ids) + 1.0, settings))


def longest_target(source_tokens: int, own: int | None, settings: SearchSettings, least: int = 0) -> int:
    """Maximum tokens before END: the source's tokens + max_extra_tokens, or `least` if that is more.

    `max_length`, and the model's limit `own`, which counts END, bound it. Raises `DragomanError` if they are
    below `least`.
    """
    longest = max(source_tokens - 1 + settings.max_extra_tokens, least)
    for most, why in (
        (settings.max_length, "max_length allows"),
        (None if own is None else own - 1, "this model can write"),
    ):
        if most is not None:
            if least > most:
                raise DragomanError(
                    f"The prefix, force or min_length asks for {least} tokens, and {why} {most}; ask for "
                    "fewer."
                )
            longest = min(longest, most)
    return longest
