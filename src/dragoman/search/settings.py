"""Settings of a search; the defaults are the paper's (section 6.1), but that no translation is empty.

This module imports no torch.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from dragoman.system.errors import OptionError
from dragoman.system.options import Excludes, Needs, check_options, check_rules, is_in_use, option

EXTRA_TOKENS = 50
"""Tokens that the paper allows beyond those of the source."""
LEAST_TOKENS = 1
"""Tokens of every translation, unless `min_length` says otherwise: none is empty."""
WHOLE_SENTENCE_ONLY = (
    "n_best", "prefix", "force_words", "min_length", "max_length", "no_repeat_ngram", "keep_tags",
    "replace_unknown", "truncate",
)  # fmt: skip
"""Settings that do not apply to the parts of a sentence. With one of them sentences are not split."""
WITHOUT_FORCED_WORDS = ("temperature", "groups", "coverage_penalty")
"""Settings of searches that force no words."""
OF_A_BEAM = Excludes(("temperature",), "samples have no beam, and are ranked by log-probability")
OF_SAMPLING = Needs("temperature", "is for sampling")


@dataclass(frozen=True)
class SearchSettings:
    """Beam search with the length penalty of Wu et al. (2016).

    Raises `DragomanError` for values that contradict each other.
    """

    beam_size: int = option(4, OF_A_BEAM, at_least=1, at_most=10_000)
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = option(0.6, OF_A_BEAM, at_least=0, at_most=8)
    """α of ((5 + |Y|) / 6)^α, by which the log-probability of a hypothesis is divided; |Y| counts the end
    token."""
    max_extra_tokens: int | None = option(None, at_least=0, at_most=10_000)
    """Maximum length of a translation: this many tokens more than its source. None is 50. For a model that
    writes bytes it is 200 if the model reads bytes too, and otherwise 4 · (L + 50) - L, where L is the number
    of tokens of the longest training source."""
    max_length: int | None = option(None, at_least=1)
    """Maximum length of a translation in tokens, for any source."""
    n_best: int = option(1, at_least=1, at_most=100_000, off=1)
    """Translations of each sentence: at most beam_size with beam search, any number with sampling."""
    length_power: float | None = option(
        None,
        OF_A_BEAM,
        Excludes(("length_penalty",), "both divide the score by a length"),
        at_least=0,
        at_most=8,
    )
    """The power p of |Y|^p, by which the log-probability is divided instead; fairseq, Hugging Face and
    CTranslate2 call it length penalty."""
    coverage_penalty: float = option(0.0, OF_A_BEAM, at_least=0, at_most=1e6)
    """β of β · Σ log(min(total attention to a source token, 1)), which is added to the score (Wu et al. 2016,
    eq. 14)."""
    groups: int = option(1, OF_A_BEAM, at_least=1, off=1)
    """Diverse beam search: number of equal parts of the beam, each of which avoids tokens of earlier ones
    (Vijayakumar et al. 2018)."""
    diversity: float = option(0.5, OF_A_BEAM, Needs("groups"), at_least=0, at_most=1e6)
    """With several groups: nats subtracted from a token for each hypothesis of earlier groups that continues
    with it."""
    min_length: int | None = option(None, at_least=0, at_most=10_000, off=0)
    """Minimum length of a translation in tokens. None is 1. With 0 a translation may be empty, as in the
    paper's search."""
    no_repeat_ngram: int = option(0, at_least=0, at_most=10_000)
    """No sequence of this many tokens occurs twice in a translation; 0 allows all."""
    ban_words: tuple[str, ...] = ()
    """Words and phrases that no translation contains. They are banned as sequences of tokens, so longer words
    whose tokens begin with such a sequence are banned too; other longer words are not."""
    prefix: str = ""
    """The first words of every translation."""
    force_words: tuple[str, ...] = option(
        (),
        Excludes(WITHOUT_FORCED_WORDS, "words are forced by grid beam search alone"),
    )
    """Words and phrases that every translation contains as whole words, in any order, if the other
    constraints allow it."""
    keep_tags: bool = False
    """Translate without <tags> and {placeholders}, and put them back beside the aligned words."""
    replace_unknown: bool = False
    """Replace each unknown token by the source word to which it attends most. With byte fallback no token is
    unknown."""
    temperature: float = option(0.0, at_least=0, at_most=1e6)
    """Above 0: sample translations, n_best of them, from softmax(logits / temperature). 0 is beam search."""
    top_k: int = option(0, OF_SAMPLING, at_least=0)
    """Sample among this many likeliest tokens; 0 is all."""
    top_p: float = option(1.0, OF_SAMPLING, above=0, at_most=1, off=1)
    """Sample among the smallest set of likeliest tokens with at least this total probability."""
    sampling_seed: int = option(1, OF_SAMPLING, at_least=0)
    """The same seed samples the same translations of a sentence, whatever the other sentences are."""
    mbr: bool = option(False, Needs("temperature", "chooses among samples"), Needs("n_best"))
    """Minimum Bayes risk: choose the one of n_best samples with the highest mean chrF2 to all of them (Eikema
    and Aziz 2020)."""
    truncate: int = option(0, at_least=0)
    """Read at most this many tokens of a sentence, its end included; 0 reads all."""
    split: int | None = option(
        None, Excludes(WHOLE_SENTENCE_ONLY, "{split} translates a sentence in parts"), at_least=0, off=0
    )
    """Translate a sentence of more tokens than this in parts, cut after punctuation or between words. None is
    the length of the longest training source. 0 translates every text whole, one of several sentences too."""
    batch_tokens: int = option(32_000, at_least=1)
    """Sentences · beam size · (longest source + max_extra_tokens) decoded at once. Affects only memory and
    speed."""

    @cached_property
    def needs_whole_sentences(self) -> bool:
        """Whether a setting does not apply to the parts of a sentence, so that none is split."""
        return any(is_in_use(self, name, ()) for name in WHOLE_SENTENCE_ONLY)

    @property
    def is_standard_beam_search(self) -> bool:
        """Whether this is what the C++ decoder implements: greedy or beam search, with or without forced
        words, by log-probability alone.
        """
        return not (self.temperature or self.groups > 1 or self.coverage_penalty)

    @property
    def needs_attention(self) -> bool:
        """Whether words of the translation are aligned with those of the source."""
        return self.keep_tags or self.replace_unknown

    @property
    def extra_tokens(self) -> int:
        """`max_extra_tokens` as a number."""
        return EXTRA_TOKENS if self.max_extra_tokens is None else self.max_extra_tokens

    @property
    def least_tokens(self) -> int:
        """`min_length` as a number."""
        return LEAST_TOKENS if self.min_length is None else self.min_length

    def __post_init__(self) -> None:
        check_options(self)
        if 0 < self.temperature < 1e-6:
            raise OptionError(
                f"{{temperature}} is {self.temperature}; sampling needs at least 0.000001, and 0 is beam "
                "search."
            )
        if self.max_length is not None and self.least_tokens > self.max_length:
            raise OptionError(
                f"{{min_length}} is {self.min_length} and {{max_length}} {self.max_length}; no translation "
                "can have both."
            )
        if not self.temperature and self.n_best > self.beam_size:
            raise OptionError(
                f"{{n_best}} is {self.n_best}, and a beam has no more than its {self.beam_size} hypotheses; "
                "give a larger {beam_size}."
            )
        if self.beam_size % self.groups:
            raise OptionError(
                f"{{beam_size}} is {self.beam_size} and {{groups}} is {self.groups}; the first has to be a "
                "multiple of the other."
            )
        if 1 in (self.truncate, self.split):
            raise OptionError(
                "{truncate} and {split} count a sentence's end, so that 1 leaves nothing; give 2 at least."
            )

    def refuse_contradictions(self, explicit: Collection[str]) -> None:
        """Raise `OptionError` for contradictions among settings that are `explicit` or not the defaults."""
        check_rules(self, explicit)
