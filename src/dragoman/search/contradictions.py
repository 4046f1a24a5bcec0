"""Settings of a search that contradict each other, or what is asked of the search.

This module imports no torch.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.search.settings import SearchSettings

WHOLE_SENTENCE_ONLY = (
    "prefix", "force_words", "min_length", "max_length", "no_repeat_ngram", "keep_tags",
    "replace_unknown", "truncate",
)  # fmt: skip
"""Settings that do not apply to the parts of a sentence. With one of them sentences are not split."""


def refuse_contradictions(settings: "SearchSettings", names: Collection[str]) -> None:
    """Raise `DragomanError` if the settings contradict each other; those of these `names` are given."""
    for contradiction, sentence in contradictions(settings, names):
        if contradiction:
            raise DragomanError(sentence)


def contradictions(settings: "SearchSettings", names: Collection[str]) -> Iterator[tuple[object, str]]:
    """Conditions that must not hold if the settings of these names are given, each with its message."""
    yield from of_sampling(settings, names)
    yield from of_beam_search(settings, names)
    yield from of_long_sentences(settings)


def of_sampling(settings: "SearchSettings", names: Collection[str]) -> Iterator[tuple[object, str]]:
    """Settings of sampling without a temperature, and settings of a beam with one."""
    sampling = settings.temperature > 0
    yield (
        0 < settings.temperature < 1e-6,
        f"temperature is {settings.temperature}; sampling needs at least 0.000001, and 0 is beam search.",
    )
    yield not 0 < settings.top_p <= 1, f"top_p is {settings.top_p}; it must be above 0, and 1 at most."
    yield (
        sampling and (settings.coverage_penalty or settings.length_power is not None),
        "coverage_penalty and length_power rank the hypotheses of a beam; samples, with a temperature, "
        "are ranked by log-probability.",
    )
    yield (
        sampling and ("beam_size" in names or "length_penalty" in names),
        "beam_size and length_penalty are for beam search; with a temperature, n_best translations are "
        "sampled.",
    )
    yield (
        sampling and (settings.groups > 1 or "diversity" in names),
        "groups and diversity are for the parts of a beam; samples, with a temperature, have none.",
    )
    yield (
        not sampling and (settings.top_k or settings.top_p < 1),
        "top_k and top_p are for sampling; they need a temperature above 0.",
    )
    yield (
        not sampling and "sampling_seed" in names,
        "sampling_seed is for sampling; it needs a temperature above 0.",
    )
    yield (
        settings.mbr and (not sampling or settings.n_best == 1),
        "mbr chooses among samples; it needs a temperature above 0 and an n_best above 1.",
    )


def of_beam_search(settings: "SearchSettings", names: Collection[str]) -> Iterator[tuple[object, str]]:
    """Numbers of a beam that do not fit each other, and penalties and constraints that exclude others."""
    sampling = settings.temperature > 0
    yield (
        settings.length_power is not None and "length_penalty" in names,
        "length_power takes the place of length_penalty; give one of them.",
    )
    yield (
        settings.max_length is not None and settings.min_length > settings.max_length,
        f"min_length is {settings.min_length} and max_length {settings.max_length}; no translation can have "
        "both.",
    )
    yield (
        not sampling and settings.n_best > settings.beam_size,
        f"n_best is {settings.n_best}, and a beam has no more than its {settings.beam_size} hypotheses; give "
        "a larger beam_size.",
    )
    yield (
        settings.beam_size % settings.groups,
        f"beam_size is {settings.beam_size} and groups is {settings.groups}; beam_size has to be a multiple "
        "of groups.",
    )
    yield (
        settings.groups == 1 and "diversity" in names and not sampling,
        "diversity is for several groups of a beam; give groups above 1.",
    )
    yield (
        settings.force_words and (sampling or settings.groups > 1 or settings.coverage_penalty),
        "force_words needs grid beam search, which has no temperature, groups or coverage_penalty; leave "
        "them out.",
    )


def of_long_sentences(settings: "SearchSettings") -> Iterator[tuple[object, str]]:
    """What a sentence that is truncated or translated in parts cannot have."""
    yield (
        settings.truncate and settings.split,
        "truncate leaves out what split would translate; give one of them.",
    )
    yield (
        1 in (settings.truncate, settings.split),
        "truncate and split count a sentence's end, so that 1 leaves nothing; give 2 at least.",
    )
    yield (
        settings.split and settings.n_best > 1,
        "split puts the best translations of the parts together; there is no n_best of them.",
    )
    for name in WHOLE_SENTENCE_ONLY:
        yield (
            settings.split and getattr(settings, name),
            f"{name} is for a whole sentence, and split translates it in parts; give one of them.",
        )


def refuse_more_than_a_beam(settings: "SearchSettings", feature: str) -> None:
    """Raise `DragomanError` for settings that ask for more than one beam search: `feature` needs that."""
    refuse_settings(settings, f"A {feature} needs a single beam search", ("temperature", "force_words"))
    refuse_more_than_a_search(settings, f"A {feature} needs a single beam search")


def refuse_more_than_a_search(settings: "SearchSettings", requirement: str) -> None:
    """Raise `DragomanError` for settings that ask for more than one search, by any method."""
    refuse_settings(settings, requirement, ("split", "keep_tags", "replace_unknown", "coverage_penalty"))


def refuse_settings(settings: "SearchSettings", requirement: str, names: Collection[str]) -> None:
    """Raise `DragomanError` for one of these settings, which contradicts a requirement."""
    for name in names:
        if getattr(settings, name):
            raise DragomanError(f"{requirement}, which {name} excludes; leave it out.")


def refuse_n_best(settings: "SearchSettings", feature: str) -> None:
    """Raise `DragomanError` for settings that ask for several translations, if there is one `feature`."""
    if settings.n_best > 1:
        raise DragomanError(f"n_best is {settings.n_best}, and there is one {feature}; leave n_best out.")


def refuse_truncation(tokens: int, view: str) -> None:
    """Raise `DragomanError` if the search reads a part of the sentence, and the view is of the whole.

    `tokens` is the setting `truncate`.
    """
    if tokens:
        raise DragomanError(
            f"{view} is of the whole sentence, and with truncate {tokens} the search reads only a part of "
            "it; leave truncate out, or give a shorter sentence."
        )
