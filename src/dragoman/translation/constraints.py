"""Prefixes, banned and forced words: from text to ids. This module imports no torch."""

from itertools import combinations

from dragoman.model.symbols import UNKNOWN
from dragoman.search.settings import Constraints, SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.tags import remove_tags


def constraint_ids(settings: SearchSettings, tokenizer: Tokenizer) -> Constraints:
    """The rules of the settings in token ids. Raises `DragomanError` if they contradict each other."""
    if settings.keep_tags and any(
        remove_tags(text)[1] for text in (settings.prefix, *settings.force, *settings.ban)
    ):
        raise DragomanError(
            "keep_tags puts tags back where the source has them; leave them out of prefix, force and ban."
        )
    prefix, *others = tokenizer.encode([settings.prefix, *settings.ban, *settings.force])
    banned, forced = others[: len(settings.ban)], others[len(settings.ban) :]
    for text, ids in zip((*settings.ban, *settings.force), others, strict=True):
        if not ids:
            raise DragomanError(
                f"{'ban' if text in settings.ban else 'force'} is {text!r}, which has no tokens."
            )
    if settings.prefix and not prefix:
        raise DragomanError(f"prefix is {settings.prefix!r}, which has no tokens.")
    for text, ids in zip((settings.prefix, *settings.ban, *settings.force), (prefix, *others), strict=True):
        if UNKNOWN in ids:
            raise DragomanError(
                f"{text!r} cannot be written with this model's vocabulary; leave it out of prefix, ban and force."
            )
    for text, ids in zip(settings.ban, banned, strict=True):
        if any(ids in ngrams(phrase, len(ids)) for phrase in forced):
            raise DragomanError(f"{text!r} is banned, and in what force asks for.")
        if ids in ngrams(prefix, len(ids)):
            raise DragomanError(f"The prefix {settings.prefix!r} has {text!r}, which is banned.")
    size = settings.no_repeat_ngram
    asked = list(zip((settings.prefix, *settings.force), (prefix, *forced), strict=True))
    for text, ids in asked if size else ():
        if len(set(map(tuple, ngrams(ids, size)))) < len(ngrams(ids, size)):
            raise DragomanError(f"{text!r}, of prefix or force, repeats what no_repeat_ngram {size} forbids.")
    for (one, first), (other, second) in combinations(asked, 2) if size else ():
        if not (follows(first, second, size) or (first is not prefix and follows(second, first, size))):
            raise DragomanError(
                f"{one!r} and {other!r} have {size} tokens in common, which no_repeat_ngram forbids to repeat."
            )
    return Constraints(settings.min_length, size, banned, prefix, forced)


def follows(first: list[int], second: list[int], size: int) -> bool:
    """Whether a text can contain both, the second after or overlapping the first, without a repeated n-gram."""
    if second in ngrams(first, len(second)):
        return True
    most = min(len(first), len(second) - 1)
    overlaps = (length for length in range(most + 1) if first[len(first) - length :] == second[:length])
    known = ngrams(first, size)
    return any(
        not any(part in known for part in ngrams(second, size)[max(0, length - size + 1) :])
        for length in overlaps
    )


def ngrams(ids: list[int], size: int) -> list[list[int]]:
    """All sequences of so many tokens that follow each other."""
    return [ids[first : first + size] for first in range(len(ids) - size + 1)]
