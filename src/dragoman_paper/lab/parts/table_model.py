"""A model whose next-word probabilities are a table, for searches that can be followed by hand."""

from collections.abc import Mapping

import torch
from torch import Tensor

from dragoman.model.interface import Model, State
from dragoman.model.symbols import END, START


class Nothing(State):
    """A table needs no memory."""

    def allocate(self, beams: int, max_length: int) -> State:
        return self

    def reorder(self, rows: Tensor) -> State:
        return self

    def select(self, sentences: Tensor) -> State:
        return self


class TableModel(Model):
    """The next word depends on the last word alone. A word without an entry ends the translation.

    `following` has the probabilities of next words by the last word; "<s>" is the beginning.
    """

    def __init__(self, words: str, following: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__()
        self.words = words
        ids = {word: number for number, word in enumerate(words, 4)} | {"<s>": START, "</s>": END}
        self.table = torch.full((4 + len(words), 4 + len(words)), 1e-30)
        for word, number in ids.items():
            for other, probability in following.get(word, {"</s>": 1.0}).items():
                self.table[number, ids[other]] = probability

    def text(self, ids: list[int]) -> str:
        """The words of these ids."""
        return " ".join(self.words[number - 4] for number in ids)

    def encode(self, source: Tensor) -> State:
        return Nothing()

    def decode(self, target: Tensor, state: State) -> tuple[Tensor, State]:
        return self.table.log()[target], state

    def logits(self, features: Tensor) -> Tensor:
        return features
