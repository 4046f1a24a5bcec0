"""The settings of a search as keyword arguments, for type checkers."""

from typing import TypedDict


class SearchOptions(TypedDict, total=False):
    """The fields of `SearchSettings` as keyword arguments (tests/test_translator.py holds them equal)."""

    beam_size: int
    length_penalty: float
    max_extra_tokens: int | None
    max_length: int | None
    n_best: int
    length_power: float | None
    coverage_penalty: float
    groups: int
    diversity: float
    min_length: int | None
    no_repeat_ngram: int
    ban_words: tuple[str, ...]
    prefix: str
    force_words: tuple[str, ...]
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
