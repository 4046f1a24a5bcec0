"""How translations are searched for. The defaults are the paper's (section 6.1); nothing here imports torch."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypedDict

from dragoman.system.errors import DragomanError, check_bounds
from dragoman.system.toml import check_types, former_name


@dataclass(frozen=True)
class SearchSettings:
    """Beam search with the length penalty of Wu et al. (2016). Raises `DragomanError` where the values contradict each other."""

    beam_size: int = 4
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 0.6
    """α of ((5 + |Y|) / 6)^α, by which a hypothesis's log-probability is divided; |Y| counts the end token."""
    max_extra_tokens: int = field(default=50, metadata=former_name("extra_length"))
    """A translation may have this many tokens more than its source."""
    max_length: int | None = None
    """No translation has more tokens than this, whatever its source has."""
    n_best: int = 1
    """Translations to give for each sentence: at most beam_size of a beam, any number of draws."""
    length_power: float | None = None
    """Divide by |Y| to this power instead: what fairseq, Hugging Face and CTranslate2 call length penalty."""
    coverage_penalty: float = 0.0
    """β of β · Σ log(min(attention that a source token got in all, 1)), END's too, which is added to the score (Wu et al. 2016, eq. 14)."""
    groups: int = 1
    """Equal parts of the beam that each search by themselves, and avoid what those before them write (Vijayakumar et al. 2018)."""
    diversity: float = 0.5
    """With more than one group: how many nats a token loses for each time that groups before it go on with it in the same step."""
    min_length: int = 0
    """Tokens that every translation has before its end, at least; fewer only where the other rules leave nothing to write."""
    no_repeat_ngram: int = 0
    """No sequence of this many tokens occurs twice in a translation; 0 allows all."""
    ban: tuple[str, ...] = ()
    """Words and phrases that no translation has, spelt in tokens as the vocabulary spells them; words whose tokens begin so count too."""
    prefix: str = ""
    """How every translation begins."""
    force: tuple[str, ...] = ()
    """Words and phrases that a translation has, as far as other rules allow, in any order, spelt in tokens as the vocabulary does."""
    keep_tags: bool = False
    """Take <tags> and {placeholders} out of a sentence, and put them back beside the words that are aligned with theirs."""
    replace_unknown: bool = False
    """Write the source word that it looks at most in the place of an unknown token, which only vocabularies without bytes have."""
    temperature: float = 0.0
    """Above 0, translations are drawn at random, n_best of them, from the softmax of logits / temperature; 0 searches with the beam."""
    top_k: int = 0
    """Draw among this many likeliest tokens; 0 is all."""
    top_p: float = 1.0
    """Draw among the fewest likeliest tokens that have this probability together."""
    sampling_seed: int = field(default=1, metadata=former_name("draw_seed"))
    """Of the draws: the same seed gives a sentence the same translations, whatever its neighbours."""
    mbr: bool = False
    """Of n_best draws give the one that agrees best with all of them, by chrF2: minimum Bayes risk (Eikema and Aziz 2020)."""
    truncate: int = 0
    """Read at most this many tokens of a sentence, its end included, and leave out the others; 0 reads all."""
    split: int | None = None
    """Translate a sentence of more tokens than this in parts, cut after punctuation or between words. None is the length of the
    longest source of training; 0 translates every sentence as a whole."""
    batch_tokens: int = 32_000
    """Sentences · beams · (longest source + max_extra_tokens) decoded at once; changes memory and speed, never a translation."""

    @property
    def is_standard(self) -> bool:
        """Whether this is greedy or beam search by log-probability alone, which the C++ decoder and CUDA graphs implement."""
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
        most: dict[str, float] = dict.fromkeys(("max_extra_tokens", "min_length", "no_repeat_ngram", "beam_size"), 10_000)
        most |= {"length_penalty": 8, "length_power": 8, "diversity": 1e6, "n_best": 100_000}
        check_bounds(self, at_least=counts | dict.fromkeys(others, 0), at_most=most)
        self.refuse_contradictions()

    def refuse_contradictions(self, given: Collection[str] = ()) -> None:
        """Raise `DragomanError` where settings contradict each other: those that are not the defaults, and those `given` by name."""
        asked = {field.name for field in fields(self) if getattr(self, field.name) != field.default} | set(given)
        for contradiction, sentence in self._contradictions(asked):
            if contradiction:
                raise DragomanError(sentence)

    def _contradictions(self, asked: Collection[str]) -> Iterator[tuple[object, str]]:
        """What must not be, where the settings of these names are asked for, and what to say of it."""
        draws = self.temperature > 0
        yield 0 < self.temperature < 1e-6, f"temperature is {self.temperature}; draws need 0.000001 at least, and 0 searches with the beam."
        yield not 0 < self.top_p <= 1, f"top_p is {self.top_p}; it must be above 0, and 1 at most."
        yield (
            self.length_power is not None and "length_penalty" in asked,
            "length_power takes the place of length_penalty; give one of them.",
        )
        yield (
            draws and (self.coverage_penalty or self.length_power is not None),
            "coverage_penalty and length_power rank what a beam finds; draws, with a temperature, are not ranked so.",
        )
        yield (
            draws and ("beam_size" in asked or "length_penalty" in asked),
            "beam_size and length_penalty are for a beam; of draws, with a temperature, n_best are made.",
        )
        yield (
            self.max_length is not None and self.min_length > self.max_length,
            f"min_length is {self.min_length} and max_length {self.max_length}; no translation can have both.",
        )
        yield draws and self.groups > 1, "groups are parts of a beam; draws, with a temperature, have none."
        yield not draws and (self.top_k or self.top_p < 1), "top_k and top_p are for draws; they need a temperature above 0."
        yield not draws and "sampling_seed" in asked, "sampling_seed is for draws; they need a temperature above 0."
        yield (
            not draws and self.n_best > self.beam_size,
            f"n_best is {self.n_best}; a beam of {self.beam_size} has no more than {self.beam_size}.",
        )
        yield self.beam_size % self.groups, f"A beam of {self.beam_size} does not divide into {self.groups} groups of equal size."
        yield (
            self.groups == 1 and "diversity" in asked,
            "diversity is what groups of a beam are asked for; give groups above 1.",
        )
        yield (
            self.force and (draws or self.groups > 1 or self.coverage_penalty),
            "force searches a grid of beams; it goes with no temperature, groups or coverage_penalty.",
        )
        yield self.mbr and (not draws or self.n_best == 1), "mbr chooses among draws; it needs a temperature above 0 and an n_best above 1."
        yield self.truncate and self.split, "truncate leaves out what split would translate; give one of them."
        yield (
            1 in (self.truncate, self.split),
            "truncate and split count a sentence's end, so that 1 leaves nothing; give 2 at least.",
        )
        yield self.split and self.n_best > 1, "split puts the best translations of the parts together; there is no n_best of them."
        for name in ("prefix", "force", "min_length", "max_length", "no_repeat_ngram", "keep_tags", "replace_unknown"):
            yield self.split and getattr(self, name), f"{name} is for a whole sentence, and split translates it in parts; give one of them."


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
    """Sequences of tokens that occur, in any order: `grid_beam_search` ensures it, `mask_forbidden` does not."""

    @property
    def restrict_tokens(self) -> bool:
        """Whether `mask_forbidden` may forbid a token."""
        return bool(self.min_length or self.no_repeat_ngram or self.banned or self.prefix)

    @property
    def min_capacity(self) -> int:
        """Tokens before END that every translation must be able to have."""
        return max(self.min_length, len(self.prefix) + sum(map(len, self.forced)))


def refuse_more_than_a_beam(settings: SearchSettings, what: str) -> None:
    """Raise `DragomanError` for settings that ask for more than one beam search, of which alone there is a `what`."""
    for name in ("temperature", "force", "split", "keep_tags", "replace_unknown", "coverage_penalty"):
        if getattr(settings, name):
            raise DragomanError(f"There is a {what} of one plain beam search, and {name} asks for something else; leave it out.")


def refuse_n_best(settings: SearchSettings, what: str) -> None:
    """Raise `DragomanError` for settings that ask for several translations, where there is one `what`."""
    if settings.n_best > 1:
        raise DragomanError(f"n_best is {settings.n_best}, and there is one {what}; leave n_best out.")
