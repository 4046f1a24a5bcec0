"""Sentences that are longer than is to be read at once: cut off, or cut into parts, where that is asked for."""

from collections.abc import Sequence

from dragoman.model.symbols import END
from dragoman.text.tokenizer import SPACE

PAUSES = (".", "!", "?", ";", ":", ",", "。", "！", "？", "；", "，", "、")


def truncated(ids: Sequence[int], most: int) -> list[int]:
    """The first tokens, `most` of them with END."""
    return list(ids) if len(ids) <= most else [*ids[: most - 1], END]


def parts(ids: Sequence[int], pieces: Sequence[str], most: int) -> list[list[int]]:
    """The ids (END last, spelt by `pieces`) in parts of `most` tokens at most, each with its own END.

    They are cut after punctuation where the latter half of a part has some, else between words, else anywhere.
    """
    found, first = [], 0
    while len(ids) - first > most:
        cut = best_cut(pieces, first, first + most - 1)
        found.append([*ids[first:cut], END])
        first = cut
    return [*found, list(ids[first:])]


def best_cut(pieces: Sequence[str], first: int, last: int) -> int:
    """Where a part that begins at `first` ends, `last` at most."""
    words = [place for place in range(first + 1, last + 1) if pieces[place].startswith(SPACE)]
    pauses = [place for place in words if pieces[place - 1].endswith(PAUSES) and 2 * (place - first) >= last - first]
    return (pauses or words or [last])[-1]
