"""New sentences that resemble a text, from an n-gram model of its words.

A model partly remembers the translations of its training text. Sentences that it does not know show how it
translates other text. He et al. (2022, "Generate, Annotate, and Learn") also let a teacher label generated
text, which a neural model writes.
"""

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import atomic_write, file_hash
from dragoman.system.readers import read_json
from dragoman.text.lines import read_lines

MAX_LINES = 500_000
"""Of a longer text, the model knows the first lines only. They need about 1 GB of memory."""
MAX_WORDS = 250
"""Longer sentences are not made, nor any that are longer than the longest one of the text."""
CONTEXT = 3
"""A word depends on the three words before it, or on two where these have few continuations."""
FEWEST_CONTINUATIONS = 3
CHUNK = 10_000
"""Sentences that are sampled together."""
FEWEST_NEW = 10
"""Sampling ends when fewer sentences of a chunk are new."""

Array = npt.NDArray[Any]


def write_with_new_sentences(text: Path, count: int, path: Path) -> None:
    """Write the lines of a text, and `count` new sentences after them, unless `path` has them already.

    PATH.json says what they were made of. Raises `DragomanError` as `sample_sentences`, and if `path` has
    something else.
    """
    record, about = path.with_name(f"{path.name}.json"), {"text": file_hash(text), "new_sentences": count}
    if path.exists():
        if not record.exists() or read_json(record) != about:
            raise OptionError(
                "{path} exists and does not consist of {text} and {count} new sentences; choose another "
                "{out}, or move the file to another folder.",
                path=path,
                text=text,
                count=f"{count:,}",
            )
        return
    lines = chain(read_lines(text), sample_sentences(text, count))
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(record) as new:
        new.write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    with atomic_write(path) as new, new.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def sample_sentences(text: Path, count: int, seed: int = 1) -> list[str]:
    """`count` different sentences that are not among the lines; the same for the same text and seed.

    Spaces or tabs separate words. Raises `DragomanError` if no more new sentences are found.
    """
    lines = (" ".join(words_of(line)) for line in islice(read_lines(text), MAX_LINES))
    known = dict.fromkeys(filter(None, lines))
    model, generator = WordModel(known), np.random.default_rng(seed)
    sentences: dict[str, None] = {}
    while len(sentences) < count:
        before = len(sentences)
        sampled = model.sample(CHUNK, generator) if known else iter(())
        sentences |= dict.fromkeys(sentence for sentence in sampled if sentence not in known)
        if len(sentences) < min(count, before + FEWEST_NEW):
            raise DragomanError(
                f"From the words of {text}, {len(sentences):,} new sentences could be made, and {count:,} "
                "were asked for. Ask for fewer, or give a longer text. Spaces have to separate its words."
            )
    return list(sentences)[:count]


def words_of(line: str) -> list[str]:
    """What spaces and tabs separate. White space of other kinds, such as a no-break space, is kept."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


class WordModel:
    """An n-gram model that reads its probabilities off the text itself.

    The text is one row of words, with boundaries before and after each sentence. A word is sampled by
    choosing one of the places that have the same words before them: a word that follows these words twice as
    often is chosen twice as often.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        numbers = {"": 0}  # 0 is the boundary
        row, self.longest = array("i", [0] * CONTEXT), 0
        for sentence in sentences:
            words = [numbers.setdefault(word, len(numbers)) for word in words_of(sentence)]
            row.extend([*words, *[0] * CONTEXT])
            self.longest = min(MAX_WORDS, max(self.longest, len(words)))
        self.words, self.row = list(numbers), np.array(row)
        long, short = (SamePlaces.of(self.row, length) for length in (CONTEXT, CONTEXT - 1))
        is_rare = long.continuations < FEWEST_CONTINUATIONS
        self.places = np.concatenate([long.places, short.places])
        self.first = np.where(is_rare, short.first + len(long.places), long.first)
        self.number = np.where(is_rare, short.number, long.number)

    def sample(self, count: int, generator: np.random.Generator) -> Iterator[str]:
        """At most `count` sentences: those that are not too long."""
        sentences: list[list[str]] = [[] for _ in range(count)]
        unfinished, place = np.arange(count), np.full(count, CONTEXT)
        for _ in range(self.longest + 1):  # with the boundary at the end
            chosen = (generator.random(len(place)) * self.number[place]).astype(np.int64)
            place = self.places[self.first[place] + chosen]
            for sentence, word in zip(unfinished.tolist(), self.row[place].tolist(), strict=True):
                sentences[sentence].append(self.words[word])
            is_word = self.row[place] != 0
            unfinished, place = unfinished[is_word], place[is_word] + 1
        return (" ".join(words[:-1]) for words in sentences if not words[-1])


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
        before = np.stack([row[places - distance] for distance in range(1, length + 1)])
        order = np.lexsort((row[places], *before))
        places, before = places[order], before[:, order]
        is_first = np.append(True, (before[:, 1:] != before[:, :-1]).any(0))
        is_new = is_first | np.append(True, row[places[1:]] != row[places[:-1]])
        starts, group = np.flatnonzero(is_first), is_first.cumsum() - 1
        columns = np.zeros((3, len(row)), np.int32)
        columns[:, places] = np.stack(
            [starts, np.diff(starts, append=len(places)), np.add.reduceat(is_new.astype(np.int64), starts)]
        )[:, group]
        return cls(places, *columns)
