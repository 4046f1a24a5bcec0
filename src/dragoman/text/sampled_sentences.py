"""New sentences that resemble a text, from an n-gram model of its words.

What a teacher writes for its own training text is partly what it remembers. For sentences that it has not
seen it writes what it would write for a test text, and this is what a student has to learn (He et al. 2022,
"Generate, Annotate, and Learn", where the sentences are those of a neural model).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.system.errors import DragomanError
from dragoman.text.lines import read_lines

MAX_LINES = 1_000_000
"""Of a longer text, the model knows the first lines only."""
CONTEXT = 3
"""A word depends on the three words before it, or on two where these have few continuations."""
FEWEST_CONTINUATIONS = 3
ROUNDS = 20
"""Attempts to make the sentences that are missing: some are those of the text, or are made twice."""

Array = npt.NDArray[Any]


def sample_sentences(text: Path, count: int, seed: int = 1) -> list[str]:
    """`count` different sentences that are not in the text; the same for the same text and seed.

    Words are separated by white space. Raises `DragomanError` if the text has too few different sentences.
    """
    lines = (" ".join(line.split()) for line in islice(read_lines(text), MAX_LINES))
    known = dict.fromkeys(filter(None, lines))
    generator = np.random.default_rng(seed)
    found: dict[str, None] = {}
    model = WordModel(known)
    for _ in range(ROUNDS if known else 0):
        sampled = model.sample(count - len(found), generator)
        found |= dict.fromkeys(sentence for sentence in sampled if sentence not in known)
        if len(found) == count:
            return list(found)
    raise DragomanError(
        f"{text} has too few different sentences to make {count:,} new ones of their words: "
        f"{len(found):,} were found. Ask for fewer, or give more text."
    )


class WordModel:
    """An n-gram model that goes from place to place in its text.

    The text is one row of words, with boundaries before and after each sentence. The next word of a sentence
    is the one at a random place among those that have the same words before them.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        numbers = {"": 0}  # 0 is the boundary
        row, self.longest = [0] * CONTEXT, 0
        for sentence in sentences:
            words = [numbers.setdefault(word, len(numbers)) for word in sentence.split()]
            row += [*words, *[0] * CONTEXT]
            self.longest = max(self.longest, len(words))
        self.words, self.row = list(numbers), np.array(row, np.int64)
        long, short = (SamePlaces.of(self.row, length) for length in (CONTEXT, CONTEXT - 1))
        few = long.continuations < FEWEST_CONTINUATIONS
        self.places = np.concatenate([long.places, short.places])
        self.first = np.where(few, short.first + len(long.places), long.first)
        self.number = np.where(few, short.number, long.number)

    def sample(self, count: int, generator: np.random.Generator) -> Iterator[str]:
        """At most `count` sentences: those that end within the length of the longest sentence of the text."""
        sentences = np.zeros((count, self.longest + 1), np.int64)
        unfinished, place = np.arange(count), np.full(count, CONTEXT)
        for step in range(self.longest + 1):
            chosen = (generator.random(len(place)) * self.number[place]).astype(np.int64)
            place = self.places[self.first[place] + chosen]
            word = self.row[place]
            sentences[unfinished, step] = word
            unfinished, place = unfinished[word != 0], place[word != 0] + 1
        lengths = (sentences != 0).sum(1)
        for sentence, length in zip(sentences.tolist(), lengths.tolist(), strict=True):
            if length <= self.longest:
                yield " ".join(self.words[word] for word in sentence[:length])


@dataclass(frozen=True)
class SamePlaces:
    """For each place of a row of words, the places with the same words before them."""

    places: Array
    """All places of words and ends of sentences; those with the same words before them are neighbours."""
    first: Array
    """For each place of the row, the index in `places` where its neighbours begin."""
    number: Array
    """For each place of the row, how many neighbours there are, itself included."""
    continuations: Array
    """For each place of the row, how many different words its neighbours have."""

    @classmethod
    def of(cls, row: Array, length: int) -> "SamePlaces":
        """Compare `length` words before each place."""
        places = np.flatnonzero((row[CONTEXT:] != 0) | (row[CONTEXT - 1 : -1] != 0)) + CONTEXT
        before = np.stack([row[places - back] for back in range(1, length + 1)])
        order = np.lexsort((row[places], *before))
        places, before = places[order], before[:, order]
        is_first = np.append(True, (before[:, 1:] != before[:, :-1]).any(0))
        is_new = is_first | np.append(True, row[places[1:]] != row[places[:-1]])
        begins, group = np.flatnonzero(is_first), is_first.cumsum() - 1
        found = np.zeros((3, len(row)), np.int64)
        found[:, places] = np.stack(
            [begins, np.diff(begins, append=len(places)), np.add.reduceat(is_new.astype(np.int64), begins)]
        )[:, group]
        return cls(places, *found)
