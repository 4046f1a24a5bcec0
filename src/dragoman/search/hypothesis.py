"""Hypotheses: the rules for them, their score and their maximum length (section 6.1).

This module imports no torch.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from dragoman.search.settings import SearchSettings
from dragoman.system.errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Number = TypeVar("Number")  # a float, or an array or tensor of them


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation: its ids without START and END, its log-probability in nats, its score.

    The log-probability includes END's.
    """

    ids: list[int]
    log_probability: float
    score: float
    attention: "npt.NDArray[np.float32] | None" = field(default=None, compare=False, repr=False)
    """The weights [T S] that alignments are read from, END included on both sides, if the search has them."""


NBest = list[list[Hypothesis]]
"""The best hypotheses of each sentence, best first."""


@dataclass(frozen=True)
class Phrase:
    """A word or phrase that a translation contains."""

    forms: Sequence[Sequence[int]]
    """Sequences of tokens, one of which occurs."""
    places: Collection[int] = ()
    """The tokens of the source that it translates, counted from 0, if they are known. The search prefers
    hypotheses that begin the phrase where they attend to these."""

    @property
    def tokens(self) -> int:
        """The number of tokens of the longest form."""
        return len(max(self.forms, key=len))


Terms = Sequence[Sequence[Phrase]]
"""For each source of a search the phrases that its translation contains; empty if no source has any."""


@dataclass(frozen=True)
class Constraints:
    """Rules for every translation, in token ids. They change no probability of a token that they allow."""

    min_length: int = 0
    """Tokens before END, at least."""
    no_repeat_ngram: int = 0
    """No sequence of this many tokens occurs twice; 0 allows all."""
    banned: Sequence[Sequence[int]] = ()
    """Sequences of tokens that do not occur."""
    prefix: Sequence[int] = ()
    """The first tokens of every translation."""
    forced: Sequence[Phrase] = ()
    """Phrases that occur in one of their forms, in any order; `grid_beam_search` ensures it."""
    continuing: Collection[int] = ()
    """Tokens that continue a word. A forced sequence before one of them is the start of a longer word, and
    does not count."""

    @classmethod
    def of(cls, settings: SearchSettings) -> "Constraints":
        """The rules of settings that no tokenizer has to encode."""
        return cls(settings.least_tokens, settings.no_repeat_ngram)

    @property
    def limits_length_alone(self) -> bool:
        """Whether `min_length` is the only rule."""
        return not (self.no_repeat_ngram or self.banned or self.prefix or self.forced)

    def restrict_after(self, length: int) -> bool:
        """Whether `mask_forbidden` may forbid a token after so many."""
        return length < self.min_length or bool(self.no_repeat_ngram or self.banned or self.prefix)

    @property
    def min_capacity(self) -> int:
        """Tokens before END that every translation must be able to have, without overlaps of sequences."""
        return max(self.min_length, len(self.prefix) + self.forced_tokens)

    @property
    def forced_tokens(self) -> int:
        """The tokens of all phrases, each in its longest form."""
        return sum(phrase.tokens for phrase in self.forced)


def beam_width(met_tokens: int, forced_tokens: int, beam_size: int) -> int:
    """The hypotheses that grid beam search keeps of those that have met so many of all forced tokens."""
    return beam_size if met_tokens == forced_tokens else max(1, beam_size // 2)


def grid_rows(forced_tokens: int, beam_size: int) -> int:
    """The hypotheses in all beams of a grid; `beam_size` without forced tokens."""
    return sum(beam_width(met, forced_tokens, beam_size) for met in range(forced_tokens + 1))


def length_penalty(length: Number, alpha: float) -> Number:
    """lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); |Y| counts END."""
    return ((5 + length) / 6) ** alpha  # type: ignore[operator]


def length_normalization(length: Number, settings: SearchSettings) -> Number:
    """The divisor of a log-probability that gives the score.

    It is `length_penalty`, or |Y|^p with `length_power` p.
    """
    if settings.length_power is not None:
        return length**settings.length_power  # type: ignore[operator]
    return length_penalty(length, settings.length_penalty)


def scored(ids: list[int], log_prob: float, settings: SearchSettings, guidance: float = 0.0) -> Hypothesis:
    """A finished hypothesis of these ids, without START and END.

    `guidance` is added to the log-probability for its score.
    """
    normalization = length_normalization(len(ids) + 1.0, settings)
    return Hypothesis(ids, log_prob, (log_prob + guidance) / normalization)


def max_target_length(
    source_tokens: int, model_limit: int | None, settings: SearchSettings, min_capacity: int = 0
) -> int:
    """Maximum tokens before END: the source's tokens + max_extra_tokens, or `min_capacity` if that is more.

    `max_length`, and the model's limit, which counts END, bound it. Raises `DragomanError` if they are below
    `min_capacity`.
    """
    length = max(source_tokens - 1 + settings.extra_tokens, min_capacity)
    for limit, reason in (
        (settings.max_length, "{max_length} allows"),
        (None if model_limit is None else model_limit - 1, "this model can write"),
    ):
        if limit is not None:
            if min_capacity > limit:
                raise OptionError(
                    f"The prefix, {{force_words}} or {{min_length}} asks for {min_capacity} tokens, and "
                    f"{reason} {limit}; ask for fewer."
                )
            length = min(length, limit)
    return length
