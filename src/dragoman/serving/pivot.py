"""Translation through a third language: what is searched in each of its two steps, and what it gives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragoman.documents.document import Segment
from dragoman.search.settings import SearchSettings
from dragoman.serving.errors import ApiError
from dragoman.serving.models import ServedModel
from dragoman.translation.translation import Translation

Alignment = list[tuple[int, int]]


@dataclass(frozen=True)
class PivotTranslation(Translation):
    """A translation of a translation. Its scores and tokens are those of the second step."""

    between: str = ""
    """The sentence in the third language."""


def first_search(search: SearchSettings, default: SearchSettings) -> SearchSettings:
    """The search of the first step: what a request says of the translation is about the second one."""
    return SearchSettings(
        beam_size=default.beam_size if search.temperature else search.beam_size,
        keep_tags=search.keep_tags,
        replace_unknown=search.replace_unknown,
        truncate=search.truncate,
        split=search.split,
    )


def second_search(search: SearchSettings) -> SearchSettings:
    """The search of the second step. What it reads is not truncated once more."""
    return replace(search, truncate=0) if search.truncate else search


def translated_segments(segments: Sequence[Segment], n_best: Sequence[list[Translation]]) -> list[Segment]:
    """Sentences with their translations, which have the same marks, in their places."""
    return [
        replace(segment, sentence=best.text) for segment, (best, *_) in zip(segments, n_best, strict=True)
    ]


def with_sentence_between(segment: Segment, n_best: list[Translation]) -> list[Translation]:
    """The translations of a translated segment, each with the sentence in the third language."""
    return [
        PivotTranslation(one.text, one.log_probability, one.score, one.tokens, segment.sentence)
        for one in n_best
    ]


def refuse_pivot(model: ServedModel, what: str) -> None:
    """Raise `ApiError` 400 for something that a translation through a third language does not have."""
    if model.steps:
        raise ApiError(
            400,
            f"No model translates {model.source} to {model.target}, and a translation by way of "
            f"{model.pivot} has no {what}. Leave that out, or choose the languages of one model; /v1/models "
            "lists them.",
            "pivot",
        )


def compose_alignments(first: Alignment, second: Alignment) -> Alignment:
    """The pairs (source, target) that have a word of the third language in common."""
    targets: dict[int, list[int]] = {}
    for between, target in second:
        targets.setdefault(between, []).append(target)
    return sorted({(source, target) for source, between in first for target in targets.get(between, ())})
