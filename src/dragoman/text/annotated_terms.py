"""Sources that say how some of their words are to be translated (Dinu et al. 2019).

`A brown<term> dog<is> Hund</term> runs.` A model that is trained with such sources writes the terms that it
is told, in the form that the sentence needs: annotations are base forms (Bergmanis and Pinnis 2021), and
translations have the forms of their sentences.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.text.inflection import base_form
from dragoman.text.lexicon import Lexicon
from dragoman.text.tokenizer import Tokenizer

SYMBOLS = BEGIN, IS, END = "<term>", "<is>", "</term>"
WORD = re.compile(r"\w+")
ANNOTATED = 0.4
"""Share of the pairs whose sources say some translations."""
MAX_TERMS = 3
"""Of a pair, one at least."""
MASKED = 0.5
"""Share of terms whose source words are left out, so that the model has to use their translation."""
JOINED = 0.3
"""Share of terms to which the next word is added, where both are next to each other in the translation."""


@dataclass(frozen=True)
class Annotation:
    """The translation of characters `start` to `end` of a source."""

    start: int
    end: int
    target: str
    is_masked: bool = False
    """The source words are left out."""


def annotate(source: str, annotations: Iterable[Annotation]) -> str:
    """The source with its annotations, which stand apart from each other.

    The space before a word moves behind the symbol, so that the word has the tokens that it has elsewhere.
    """
    for one in sorted(annotations, key=lambda one: -one.start):
        words = "" if one.is_masked else source[one.start : one.end]
        start = one.start - (source[: one.start].endswith(" "))
        space = "" if one.is_masked else source[start : one.start]
        source = f"{source[:start]}{BEGIN}{space}{words}{IS} {one.target}{END}{source[one.end :]}"
    return source


def knows_terms(tokenizer: Tokenizer) -> bool:
    """Whether a vocabulary has the symbols, as that of a model that was trained with annotated sources."""
    return set(SYMBOLS) <= set(tokenizer.pieces(range(len(tokenizer))))


def without_symbols(text: str) -> str:
    """A text of a user, in which none of the symbols is one."""
    for symbol in SYMBOLS:
        text = text.replace(symbol, symbol.replace("<", "< "))
    return text


@dataclass(frozen=True)
class TermSampler:
    """Draws annotations for training pairs from the words that translate each other."""

    lexicon: Lexicon
    language: str
    """Of the target, whose base forms are written."""

    def sample(self, source: str, target: str, draw: np.random.Generator) -> str:
        """The source with some annotations or none; equal for equal states of `draw`."""
        if draw.random() >= ANNOTATED:
            return source
        source_spans, target_spans = (
            [word.span() for word in WORD.finditer(text)] for text in (source, target)
        )
        links = self.links(WORD.findall(source), WORD.findall(target))
        free = dict(links)
        annotations: list[Annotation] = []
        for first in draw.permutation(sorted(links))[: draw.integers(1, MAX_TERMS, endpoint=True)].tolist():
            if first not in free:
                continue
            is_joined = free.get(first + 1) == free[first] + 1 and draw.random() < JOINED
            places = (first, first + 1) if is_joined else (first,)
            words = [target[slice(*target_spans[free.pop(place)])] for place in places]
            start, end = source_spans[places[0]][0], source_spans[places[-1]][1]
            bases = (base_form(word, self.language) for word in words)
            annotations.append(Annotation(start, end, " ".join(bases), bool(draw.random() < MASKED)))
        return annotate(source, annotations)

    def links(self, source: Sequence[str], target: Sequence[str]) -> dict[int, int]:
        """The places of words that translate each other, where no other word of the pair could."""
        candidates = [
            [other for other, translation in enumerate(target) if translation in translations]
            for translations in (self.lexicon.get(word.casefold(), set()) for word in source)
        ]
        claims = Counter(other for others in candidates for other in others)
        return {
            place: others[0]
            for place, others in enumerate(candidates)
            if len(others) == 1 and claims[others[0]] == 1
        }
