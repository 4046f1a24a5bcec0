"""Translations that are given again to equal requests: bounded by their memory, the latest used are kept."""

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from sys import getsizeof

from dragoman.documents.document import Document
from dragoman.native.build import DECODER, is_compiled
from dragoman.search.settings import SearchSettings
from dragoman.translation.translation import Translation
from dragoman.translation.translator import Translator

NBest = list[list[Translation]]
Stored = tuple[tuple[Translation, ...], ...]
"""The n best translations of each sentence of a document."""
OBJECT = 100  # bytes of a small object with its place in a tuple or a table


@dataclass(frozen=True)
class Question:
    """All that the translations of a request depend on, besides the model."""

    search: SearchSettings
    sentences: tuple[tuple[tuple[str, bool], ...], ...]
    """Of each document: the text, and whether it has marks, which are then kept."""
    is_compiled: bool
    """Whether the search is in C++, if it can be: PyTorch rounds probabilities in another way."""

    @classmethod
    def of(cls, documents: Sequence[Document], search: SearchSettings) -> "Question":
        """The question of a request."""
        sentences = (
            tuple((segment.sentence, bool(segment.marks)) for segment in document.segments)
            for document in documents
        )
        return cls(search, tuple(sentences), is_compiled(DECODER))


@dataclass(frozen=True)
class Entry:
    """Translations by a translator, which the cache does not keep alive."""

    translator: weakref.ref[Translator]
    translations: tuple[Stored, ...]
    size: int
    """In bytes."""


class Cache:
    """The translations of `max_bytes` of memory at most; none if that is 0.

    They belong to the object that has translated them: one that is loaded anew has none.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.size = max_bytes, 0
        self._entries: OrderedDict[tuple[int, Question], Entry] = OrderedDict()

    def find(self, translator: Translator, question: Question) -> list[NBest] | None:
        """The translations of each document of a question; None if they are not known."""
        place = id(translator), question
        entry = self._entries.get(place)
        if entry is None or entry.translator() is not translator:  # another one has had this place in memory
            return None
        self._entries.move_to_end(place)
        return [[list(best) for best in document] for document in entry.translations]

    def add(self, translator: Translator, question: Question, results: Sequence[NBest]) -> None:
        """Keep translations, unless they alone are too large, and forget those not used for long."""
        translations = tuple(tuple(map(tuple, document)) for document in results)
        size = size_of(question, translations)
        if size > self.max_bytes:
            return
        place = id(translator), question
        if former := self._entries.pop(place, None):
            self.size -= former.size
        self._entries[place] = Entry(weakref.ref(translator), translations, size)
        self.size += size
        while self.size > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.size -= oldest.size


def size_of(question: Question, translations: Sequence[Stored]) -> int:
    """The memory in bytes of an entry: its texts, and the objects that hold them."""
    sentences = sum(
        getsizeof(sentence) + 2 * OBJECT for document in question.sentences for sentence, _ in document
    )
    return (
        10 * OBJECT
        + sentences
        + sum(
            getsizeof(translation.text)
            + 3 * OBJECT
            + sum(getsizeof(token) + 8 for token in translation.tokens)
            for document in translations
            for best in document
            for translation in best
        )
    )
