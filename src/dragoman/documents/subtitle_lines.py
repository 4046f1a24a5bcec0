"""The words of a translation in the cues and lines of subtitles."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import NamedTuple

NEAR = 3  # words around the place of a cut, among which a better one is looked for
CLAUSE_END = re.compile(r"[,;:.!?…—、。，；！？][^\w\s]*\Z")


class Word(NamedTuple):
    """A part of a text that is in one line."""

    space: str
    """Before it."""
    text: str
    width: int
    """The number of its characters that are shown."""
    depth: int
    """The number of pairs of tags that are open before it."""


def with_tags_alone(words: Sequence[Word]) -> list[Word]:
    """The words, those of tags alone as parts of the next one, or of the last."""
    result: list[Word] = []
    tags: Word | None = None
    for word in words:
        joined = word if tags is None else with_next(tags, word)
        tags = None if word.width else joined
        if word.width:
            result.append(joined)
    if tags is not None:
        result[-1:] = [with_next(result[-1], tags)] if result else [tags]
    return result


def with_next(word: Word, other: Word) -> Word:
    """Two words as one."""
    width = word.width + len(other.space) + other.width
    return Word(word.space, f"{word.text}{other.space}{other.text}", width, word.depth)


def cut(words: Sequence[Word], weights: Sequence[int]) -> list[str]:
    """The words in as many parts as there are weights, in proportion to them.

    A part ends with the punctuation mark near the place in question, and outside of tags, if it can. The last
    parts are empty if there are too few words.
    """
    edges = [0]
    for number, weight in enumerate(accumulate(weights[:-1]), 1):
        ideal = len(words) * weight / sum(weights)
        most = len(words) - (len(weights) - number)
        first, last = max(edges[-1] + 1, round(ideal) - NEAR), min(most, round(ideal) + NEAR)
        candidates = range(first, last + 1) or [min(edges[-1] + 1, len(words))]
        edges.append(min(candidates, key=lambda place: abs(place - ideal) + badness(words, place)))
    return [join(words[start:end]) for start, end in pairwise([*edges, len(words)])]


def cut_where_aligned(words: Sequence[Word], places: Sequence[int], limits: Sequence[int]) -> list[str]:
    """The words in parts, cut before the words in `places`. Each part has a word if there are enough.

    A cut moves by `NEAR` words at most: out of a pair of tags, or where a part is wider than its limit, in
    characters, and its neighbour has room.
    """

    def excess(start: int, end: int, limit: int) -> int:
        """The characters by which a part is too wide."""
        return max(0, width(words[start:end]) - limit)

    def cost(start: int, place: int, number: int) -> tuple[float, int, int]:
        """What counts against a cut before a word; `start` is the first word of the part before it."""
        end = places[number + 1] if number + 1 < len(places) else len(words)
        too_wide = excess(start, place, limits[number]) + excess(place, end, limits[number + 1])
        return inside_tags(words, place), too_wide, abs(place - places[number])

    edges = [0]
    for number, ideal in enumerate(places):
        first, most = edges[-1] + 1, len(words) - (len(places) - number)
        nearest = max(first, min(ideal, most))
        candidates = range(max(first, nearest - NEAR), min(most, nearest + NEAR) + 1)
        edges.append(min(candidates or [min(first, len(words))], key=partial(cost, edges[-1], number=number)))
    return [join(words[start:end]) for start, end in pairwise([*edges, len(words)])]


def badness(words: Sequence[Word], place: int) -> float:
    """What counts against a cut before this word, in words."""
    if place >= len(words):
        return 0
    ends_clause = CLAUSE_END.search(words[place - 1].text[-9:]) is not None
    return inside_tags(words, place) - 1.5 * ends_clause


def inside_tags(words: Sequence[Word], place: int) -> float:
    """What counts against a cut before this word if it is within a pair of tags, in words."""
    return 6.0 * (place < len(words) and words[place].depth > 0)


def width(words: Sequence[Word]) -> int:
    """The number of characters of words that are shown, with the spaces between them."""
    return sum(word.width + len(word.space) * (number > 0) for number, word in enumerate(words))


def join(words: Sequence[Word]) -> str:
    """The text of words, without the space before the first."""
    return "".join(word.space * (number > 0) + word.text for number, word in enumerate(words))


def wrap(words: Sequence[Word], count: int, limit: int) -> list[str]:
    """The lines of a text: as few as the limit allows, at most `count`, the longest as short as it can be."""
    full = sum(word.width + 1 for word in words)
    count = min(count, len(starts_of_lines(words, limit)))
    width = bisect_left(range(full), True, key=lambda width: len(starts_of_lines(words, width)) <= count)
    edges = [*starts_of_lines(words, width), len(words)]
    return [join(words[start:end]) for start, end in pairwise(edges)]


def starts_of_lines(words: Sequence[Word], width: int) -> list[int]:
    """The first word of each line, where each line is filled up to a width."""
    starts = [0]
    length = 0
    for number, word in enumerate(words):
        longer = length + len(word.space) * (length > 0) + word.width
        if longer > width and length:
            starts.append(number)
            longer = word.width
        length = longer
    return starts
