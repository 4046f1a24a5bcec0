"""Terms that a translation has to use, found in a sentence by its words. This module imports no torch."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice, product
from typing import Literal, NamedTuple

from dragoman.text.inflection import base_form, inflected_forms
from dragoman.text.settings import Languages
from dragoman.translation.tags import UNSPACED

MAX_FORMS = 64
"""Forms of a target of several words."""


@dataclass(frozen=True)
class Term:
    """A word or phrase of the source language, and the one of the target language that translates it."""

    source: str
    target: str


class Match(NamedTuple):
    """A term in a sentence, at characters `start` to `end`."""

    term: Term
    start: int
    end: int


class Glossary:
    """The terms of a pair of languages.

    A term is found in a sentence as whole words, and the longest term at a place counts. A term in lower case
    is found in any case. One with capital letters has to have the same ones, or those of a text in capital
    letters. Inflected words are found if simplemma knows the language. Of several terms with the same source,
    the first counts.
    """

    def __init__(self, terms: Iterable[Term], languages: Languages) -> None:
        self.languages = languages
        self._terms: dict[str, Term] = {}
        for term in terms:
            self._terms.setdefault(" ".join(words_of(term.source)), term)
        self._by_words: dict[tuple[str, ...], list[Term]] = defaultdict(list)
        self._lengths: dict[str, set[int]] = defaultdict(set)
        """The numbers of words of the terms that begin with a word."""
        for term in self.terms:
            if key := tuple(map(str.casefold, words_of(term.source))):
                self._by_words[key].append(term)
                self._lengths[key[0]].add(len(key))

    @property
    def terms(self) -> list[Term]:
        """The terms, each source once."""
        return list(self._terms.values())

    def find(self, sentence: str) -> list[Match]:
        """The terms of a sentence, in order. Time grows with its length, not with that of the glossary."""
        spans = list(word_spans(sentence))
        words = [normal(sentence[start:end]) for start, end in spans]
        base_of = {word: base_form(word, self.languages.source) for word in set(words)}
        bases = [base_of[word] for word in words]
        matches: list[Match] = []
        place = 0
        while place < len(words):
            term, length = self._longest_at(words, bases, place)
            if term is not None:
                matches.append(Match(term, spans[place][0], spans[place + length - 1][1]))
            place += length
        return matches

    def _longest_at(self, words: Sequence[str], bases: Sequence[str], place: int) -> tuple[Term | None, int]:
        """The longest term that begins at a word, and the number of words that it or no term has."""
        firsts = words[place].casefold(), bases[place].casefold()
        lengths = {length for first in firsts for length in self._lengths.get(first, ())}
        for length in sorted(lengths, reverse=True):
            if (last := place + length) > len(words):
                continue
            # As they are; the last one in its base form; all in their base forms.
            for variant in (
                words[place:last],
                [*words[place : last - 1], bases[last - 1]],
                bases[place:last],
            ):
                candidates = self._by_words.get(tuple(map(str.casefold, variant)), ())
                fitting = [term for term in candidates if fits_case(words_of(term.source), variant)]
                if fitting:
                    return max(fitting, key=lambda term: words_of(term.source) == list(variant)), length
        return None, 1

    def forms(self, term: Term) -> list[str]:
        """The forms of a term's target, the given one first."""
        words = term.target.split()
        forms = (self._inflected.get(word, [word]) for word in words)
        return list(dict.fromkeys(map(" ".join, islice(product(*forms), MAX_FORMS))))

    @cached_property
    def _inflected(self) -> dict[str, list[str]]:
        """The forms of each word of the targets."""
        words = {word for term in self.terms for word in term.target.split()}
        return inflected_forms(words, self.languages.target)

    def unused(self, sentence: str, translation: str) -> list[Term]:
        """The terms of a sentence of which its translation has no form."""
        words = joined(words_of(translation))
        return [
            term
            for term in dict.fromkeys(match.term for match in self.find(sentence))
            if not any(joined(words_of(form)) in words for form in self.forms(term))
        ]

    def load_dictionaries(self) -> None:
        """Read the dictionaries of both languages, which the first sentence would otherwise wait for."""
        base_form("a", self.languages.source)
        self.forms(Term("a", "a"))


def words_of(text: str) -> list[str]:
    """The words and marks of a text."""
    return [normal(text[start:end]) for start, end in word_spans(text)]


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """The first character of each word and the one after its last.

    Each letter of a script without spaces, and each other sign, is a word of its own. An apostrophe between
    letters is a part of their word.
    """
    kinds = [kind_of(character) for character in text]
    start = 0
    while start < len(text):
        end = start + 1
        if kinds[start] == "letter":
            while end < len(text) and (
                kinds[end] in {"letter", "accent"}
                or (text[end] in "'’" and kinds[end + 1 : end + 2] == ["letter"])
            ):
                end += 1
        while kinds[start] != "space" and end < len(text) and kinds[end] == "accent":
            end += 1
        if kinds[start] != "space":
            yield start, end
        start = end


@cache
def kind_of(character: str) -> Literal["letter", "accent", "space", "sign"]:
    """What a character is in a word."""
    if character.isspace():
        return "space"
    if unicodedata.category(character)[0] == "M":
        return "accent"
    is_letter = (character.isalnum() or character == "_") and not UNSPACED.match(character)
    return "letter" if is_letter else "sign"


def normal(word: str) -> str:
    """A word in normal form C."""
    return unicodedata.normalize("NFC", word)


def fits_case(term: Sequence[str], words: Sequence[str]) -> bool:
    """Whether a term's capital letters are those of the words, or the words are in capital letters."""
    return all(
        word in (other, word.lower()) or (other.isupper() and len(other) > 1)
        for word, other in zip(term, words, strict=True)
    )


def joined(words: Sequence[str]) -> str:
    """Words, without their case, with a space around each: a phrase of them is a part of this text."""
    return f" {' '.join(words)} ".casefold()
