"""Settings of a search; the defaults are the paper's (section 6.1). This module imports no torch."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypedDict

from dragoman.system.errors import DragomanError
from dragoman.system.keys import former_name
from dragoman.system.toml import check_bounds, check_types


@dataclass(frozen=True)
class SearchSettings:
    """Beam search with the length penalty of Wu et al. (2016).

    Raises `DragomanError` for values that contradict each other.
    """

    beam_size: int = 4
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 0.6
    """α of ((5 + |Y|) / 6)^α, by which the log-probability of a hypothesis is divided; |Y| counts the end
    token."""
    max_extra_tokens: int = field(default=50, metadata=former_name("extra_length"))
    """Maximum length of a translation: this many tokens more than its source."""
    max_length: int | None = None
    """Maximum length of a translation in tokens, whatever its source has."""
    n_best: int = 1
    """Translations of each sentence: at most beam_size with a beam, any number of samples."""
    length_power: float | None = None
    """β: divide by |Y|^β instead, which fairseq, Hugging Face and CTranslate2 call length penalty."""
    coverage_penalty: float = 0.0
    """β of β · Σ log(min(total attention to a source token, 1)), which is added to the score (Wu et al. 2016,
    eq. 14)."""
    groups: int = 1
    """Diverse beam search: equal parts of the beam, each of which avoids tokens of earlier ones (Vijayakumar
    et al. 2018)."""
    diversity: float = 0.5
    """With several groups: nats that a token loses for each hypothesis of earlier groups that continues with
    it."""
    min_length: int = 0
    """Minimum length of a translation in tokens."""
    no_repeat_ngram: int = 0
    """No sequence of this many tokens occurs twice in a translation; 0 allows all."""
    ban: tuple[str, ...] = ()
    """Words and phrases that no translation contains. They are banned as token sequences: longer words may
    contain them."""
    prefix: str = ""
    """The first words of every translation."""
    force: tuple[str, ...] = ()
    """Words and phrases that every translation contains, in any order, if the other constraints allow it."""
    keep_tags: bool = False
    """Translate without <tags> and {placeholders}, and put them back beside the aligned words."""
    replace_unknown: bool = False
    """Replace each unknown token by the source word that it attends to most. Vocabularies with bytes have
    none."""
    temperature: float = 0.0
    """Above 0: sample n_best translations from the softmax of logits / temperature. 0 is beam search."""
    top_k: int = 0
    """Sample among this many likeliest tokens; 0 is all."""
    top_p: float = 1.0
    """Sample among the fewest likeliest tokens with this total probability."""
    sampling_seed: int = field(default=1, metadata=former_name("draw_seed"))
    """The same seed samples the same translations of a sentence, whatever its neighbours."""
    mbr: bool = False
    """Of n_best samples take the one with the highest mean chrF2 to all: minimum Bayes risk (Eikema and Aziz
    2020)."""
    truncate: int = 0
    """Read at most this many tokens of a sentence, its end included; 0 reads all."""
    split: int | None = None
    """Translate a sentence of more tokens than this in parts, cut after punctuation or between words. None is
    the length of the longest source of training; 0 translates every sentence as a whole."""
    batch_tokens: int = 32_000
    """Sentences · beams · (longest source + max_extra_tokens) decoded at once. Changes memory and speed
    alone."""

    @property
    def is_standard(self) -> bool:
        """Whether this is what the C++ decoder implements: greedy or beam search by log-probability alone."""
        return not (self.temperature or self.force or self.groups > 1 or self.coverage_penalty)

    @classmethod
    def of(cls, settings: "SearchSettings | None", options: "SearchOptions") -> "SearchSettings":
        """The settings, or the defaults, with these options in place of their fields."""
        return replace(settings or cls(), **options)

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("beam_size", "n_best", "batch_tokens", "groups"), 1)
        others = (
            "length_penalty",
            "max_extra_tokens",
            "max_length",
            "length_power",
            "coverage_penalty",
            "diversity",
            "min_length",
            "no_repeat_ngram",
            "temperature",
            "truncate",
            "split",
            "top_k",
            "sampling_seed",
        )
        check_types(self)
        most: dict[str, float] = dict.fromkeys(
            ("max_extra_tokens", "min_length", "no_repeat_ngram", "beam_size"), 10_000
        )
        most |= {"length_penalty": 8, "length_power": 8, "diversity": 1e6, "n_best": 100_000}
        check_bounds(self, at_least=counts | dict.fromkeys(others, 0), at_most=most)
        self.refuse_contradictions()

    def refuse_contradictions(self, given: Collection[str] = ()) -> None:
        """Raise `DragomanError` for contradictions among settings that are `given` or not the defaults."""
        asked = {field.name for field in fields(self) if getattr(self, field.name) != field.default} | set(
            given
        )
        for contradiction, sentence in self._contradictions(asked):
            if contradiction:
                raise DragomanError(sentence)

    def _contradictions(self, asked: Collection[str]) -> Iterator[tuple[object, str]]:
        """Conditions that must not hold if the settings of these names are given, each with its message."""
        samples = self.temperature > 0
        yield (
            0 < self.temperature < 1e-6,
            f"temperature is {self.temperature}; sampling needs at least 0.000001, and 0 is beam search.",
        )
        yield not 0 < self.top_p <= 1, f"top_p is {self.top_p}; it must be above 0, and 1 at most."
        yield (
            self.length_power is not None and "length_penalty" in asked,
            "length_power takes the place of length_penalty; give one of them.",
        )
        yield (
            samples and (self.coverage_penalty or self.length_power is not None),
            "coverage_penalty and length_power rank the hypotheses of a beam; samples, with a temperature, "
            "are ranked by log-probability.",
        )
        yield (
            samples and ("beam_size" in asked or "length_penalty" in asked),
            "beam_size and length_penalty are for beam search; with a temperature, n_best translations are "
            "sampled.",
        )
        yield (
            self.max_length is not None and self.min_length > self.max_length,
            f"min_length is {self.min_length} and max_length {self.max_length}; no translation can have "
            "both.",
        )
        yield (
            samples and self.groups > 1,
            "groups are parts of a beam; samples, with a temperature, have none.",
        )
        yield (
            not samples and (self.top_k or self.top_p < 1),
            "top_k and top_p are for sampling; they need a temperature above 0.",
        )
        yield (
            not samples and "sampling_seed" in asked,
            "sampling_seed is for sampling; it needs a temperature above 0.",
        )
        yield (
            not samples and self.n_best > self.beam_size,
            f"n_best is {self.n_best}; a beam of {self.beam_size} has no more than {self.beam_size}.",
        )
        yield (
            self.beam_size % self.groups,
            f"A beam of {self.beam_size} does not divide into {self.groups} groups of equal size.",
        )
        yield (
            self.groups == 1 and "diversity" in asked,
            "diversity is for several groups of a beam; give groups above 1.",
        )
        yield (
            self.force and (samples or self.groups > 1 or self.coverage_penalty),
            "force needs grid beam search, which has no temperature, groups or coverage_penalty; leave them "
            "out.",
        )
        yield (
            self.mbr and (not samples or self.n_best == 1),
            "mbr chooses among samples; it needs a temperature above 0 and an n_best above 1.",
        )
        yield (
            self.truncate and self.split,
            "truncate leaves out what split would translate; give one of them.",
        )
        yield (
            1 in (self.truncate, self.split),
            "truncate and split count a sentence's end, so that 1 leaves nothing; give 2 at least.",
        )
        yield (
            self.split and self.n_best > 1,
            "split puts the best translations of the parts together; there is no n_best of them.",
        )
        for name in (
            "prefix",
            "force",
            "min_length",
            "max_length",
            "no_repeat_ngram",
            "keep_tags",
            "replace_unknown",
        ):
            yield (
                self.split and getattr(self, name),
                f"{name} is for a whole sentence, and split translates it in parts; give one of them.",
            )


class SearchOptions(TypedDict, total=False):
    """The fields of `SearchSettings` as keyword arguments (tests/test_translator.py holds them equal)."""

    beam_size: int
    length_penalty: float
    max_extra_tokens: int
    max_length: int | None
    n_best: int
    length_power: float | None
    coverage_penalty: float
    groups: int
    diversity: float
    min_length: int
    no_repeat_ngram: int
    ban: tuple[str, ...]
    prefix: str
    force: tuple[str, ...]
    keep_tags: bool
    replace_unknown: bool
    temperature: float
    top_k: int
    top_p: float
    sampling_seed: int
    mbr: bool
    truncate: int
    split: int | None
    batch_tokens: int


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
    forced: Sequence[Sequence[int]] = ()
    """Sequences of tokens that occur, in any order; `grid_beam_search` ensures it."""

    @property
    def restrict_tokens(self) -> bool:
        """Whether `mask_forbidden` may forbid a token."""
        return bool(self.min_length or self.no_repeat_ngram or self.banned or self.prefix)

    @property
    def min_capacity(self) -> int:
        """Tokens before END that every translation must be able to have."""
        return max(self.min_length, len(self.prefix) + sum(map(len, self.forced)))


def refuse_more_than_a_beam(settings: SearchSettings, what: str) -> None:
    """Raise `DragomanError` for settings that ask for more than one beam search: `what` needs that."""
    for name in ("temperature", "force", "split", "keep_tags", "replace_unknown", "coverage_penalty"):
        if getattr(settings, name):
            raise DragomanError(
                f"A {what} is of one beam search, and {name} asks for something else; leave it out."
            )


def refuse_n_best(settings: SearchSettings, what: str) -> None:
    """Raise `DragomanError` for settings that ask for several translations, if there is only one `what`."""
    if settings.n_best > 1:
        raise DragomanError(f"n_best is {settings.n_best}, and there is one {what}; leave n_best out.")
