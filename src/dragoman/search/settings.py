"""Settings of a search; the defaults are the paper's (section 6.1). This module imports no torch."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cached_property

from dragoman.search.contradictions import WHOLE_SENTENCE_ONLY, refuse_contradictions
from dragoman.system.toml import check_bounds

COMPATIBLE = {"beam_size", "length_penalty", "max_extra_tokens", "batch_tokens"}
"""Settings of the paper's search, which do not contradict each other."""
EXTRA_TOKENS = 50
"""Tokens that the paper allows beyond those of the source."""


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
    max_extra_tokens: int | None = None
    """Maximum length of a translation: this many tokens more than its source. None is 50. For a model that
    writes bytes it is 200 if the model reads bytes too, and otherwise 4 · (L + 50) - L, where L is the number
    of tokens of the longest training source."""
    max_length: int | None = None
    """Maximum length of a translation in tokens, for any source."""
    n_best: int = 1
    """Translations of each sentence: at most beam_size with beam search, any number with sampling."""
    length_power: float | None = None
    """p: divides by |Y|^p instead, which fairseq, Hugging Face and CTranslate2 call length penalty."""
    coverage_penalty: float = 0.0
    """β of β · Σ log(min(total attention to a source token, 1)), which is added to the score (Wu et al. 2016,
    eq. 14)."""
    groups: int = 1
    """Diverse beam search: number of equal parts of the beam, each of which avoids tokens of earlier ones
    (Vijayakumar et al. 2018)."""
    diversity: float = 0.5
    """With several groups: nats subtracted from a token for each hypothesis of earlier groups that continues
    with it."""
    min_length: int = 0
    """Minimum length of a translation in tokens."""
    no_repeat_ngram: int = 0
    """No sequence of this many tokens occurs twice in a translation; 0 allows all."""
    ban_words: tuple[str, ...] = ()
    """Words and phrases that no translation contains. They are banned as sequences of tokens, so longer words
    whose tokens begin with such a sequence are banned too; other longer words are not."""
    prefix: str = ""
    """The first words of every translation."""
    force_words: tuple[str, ...] = ()
    """Words and phrases that every translation contains as whole words, in any order, if the other
    constraints allow it."""
    keep_tags: bool = False
    """Translate without <tags> and {placeholders}, and put them back beside the aligned words."""
    replace_unknown: bool = False
    """Replace each unknown token by the source word to which it attends most. With byte fallback no token is
    unknown."""
    temperature: float = 0.0
    """Above 0: sample translations, n_best of them, from softmax(logits / temperature). 0 is beam search."""
    top_k: int = 0
    """Sample among this many likeliest tokens; 0 is all."""
    top_p: float = 1.0
    """Sample among the smallest set of likeliest tokens with at least this total probability."""
    sampling_seed: int = 1
    """The same seed samples the same translations of a sentence, whatever the other sentences are."""
    mbr: bool = False
    """Minimum Bayes risk: choose the one of n_best samples with the highest mean chrF2 to all of them (Eikema
    and Aziz 2020)."""
    truncate: int = 0
    """Read at most this many tokens of a sentence, its end included; 0 reads all."""
    split: int | None = None
    """Translate a sentence of more tokens than this in parts, cut after punctuation or between words. None is
    the length of the longest training source; 0 translates every sentence as a whole."""
    batch_tokens: int = 32_000
    """Sentences · beam size · (longest source + max_extra_tokens) decoded at once. Affects only memory and
    speed."""

    @cached_property
    def needs_whole_sentences(self) -> bool:
        """Whether a setting does not apply to the parts of a sentence, so that none is split."""
        return self.n_best > 1 or any(getattr(self, name) for name in WHOLE_SENTENCE_ONLY)

    @property
    def is_standard_beam_search(self) -> bool:
        """Whether this is what the C++ decoder implements: greedy or beam search by log-probability alone."""
        return not (self.temperature or self.force_words or self.groups > 1 or self.coverage_penalty)

    @property
    def extra_tokens(self) -> int:
        """`max_extra_tokens` as a number."""
        return EXTRA_TOKENS if self.max_extra_tokens is None else self.max_extra_tokens

    def __post_init__(self) -> None:
        at_least = dict.fromkeys(("beam_size", "n_best", "batch_tokens", "groups", "max_length"), 1)
        for name, value in vars(self).items():
            if isinstance(value, int | float) and name != "top_p":
                at_least.setdefault(name, 0)
        at_most = dict.fromkeys(("max_extra_tokens", "min_length", "no_repeat_ngram", "beam_size"), 10_000.0)
        at_most |= dict.fromkeys(("diversity", "temperature", "coverage_penalty"), 1e6)
        at_most |= {"length_penalty": 8, "length_power": 8, "n_best": 100_000}
        check_bounds(self, at_least=at_least, at_most=at_most)
        self.refuse_contradictions()

    def refuse_contradictions(self, explicit: Collection[str] = ()) -> None:
        """Raise `DragomanError` for contradictions among settings that are `explicit` or not the defaults."""
        changed = {field.name for field in fields(self) if getattr(self, field.name) != field.default}
        names = changed.union(explicit)
        if not names <= COMPATIBLE:
            refuse_contradictions(self, names)
