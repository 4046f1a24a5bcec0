"""What a search finds, how long it may be, and what ranks it (section 6.1). No torch here."""

from dataclasses import dataclass
from typing import TypeVar

from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError

Number = TypeVar("Number")  # a float, or an array or tensor of them
NON_FINITE = "The model's probabilities are no numbers: its training diverged, or its weights were damaged before they were saved."


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its ids without START and END, its log-probability in nats (END's included), and its score."""

    ids: list[int]
    log_probability: float
    score: float


def length_penalty(length: Number, alpha: float) -> Number:
    """lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); |Y| counts END."""
    return ((5 + length) / 6) ** alpha  # type: ignore[operator]


def normalizer(length: Number, settings: SearchSettings) -> Number:
    """What the log-probability of a hypothesis is divided by to rank it."""
    if settings.length_power is not None:
        return length**settings.length_power  # type: ignore[operator]
    return length_penalty(length, settings.length_penalty)


def scored(ids: list[int], log_p: float, settings: SearchSettings) -> Hypothesis:
    """A hypothesis of these ids, without START and END, that has ended."""
    return Hypothesis(ids, log_p, log_p / normalizer(len(ids) + 1.0, settings))


def longest_target(source_tokens: int, own: int | None, settings: SearchSettings, least: int = 0) -> int:
    """Tokens that a translation may have before END: as many as its source has there, and some more, or `least`; within the limits.

    These are max_length and the model's `own`, which counts END. Raises `DragomanError` where they are less than `least`.
    """
    longest = max(source_tokens - 1 + settings.max_extra_tokens, least)
    for most, why in ((settings.max_length, "max_length allows"), (None if own is None else own - 1, "this model can write")):
        if most is not None:
            if least > most:
                raise DragomanError(f"The prefix, force or min_length asks for {least} tokens, and {why} {most}; ask for fewer.")
            longest = min(longest, most)
    return longest
