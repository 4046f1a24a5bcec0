"""All that training and search know of a model. Shapes: B sentences, S source and T target tokens, W hypotheses a sentence."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.linear import pack
from dragoman.model.settings import Precision


class State(ABC):
    """What a model knows of B sources and of the R = B · W target prefixes that it has read so far.

    `decode` may write into the state that it was given: use each state once.
    """

    @abstractmethod
    def with_room(self, beams: int, length: int) -> "State":
        """The state for `beams` hypotheses a sentence, each of up to `length` tokens, before the first token."""

    @abstractmethod
    def reorder(self, rows: Int[Tensor, "R"]) -> "State":
        """Put the prefix of hypothesis `rows[i]` in place i. Rows move within their sentence only."""

    @abstractmethod
    def keep(self, sentences: Int[Tensor, "B2"]) -> "State":
        """These sentences, in this order, with all their hypotheses; one may be there several times, before the first token."""


class Model(nn.Module):
    """An encoder-decoder. Step by step and all at once `decode` gives the same features (tests/test_laws.py)."""

    longest_source: int | None = None
    """Source tokens, END included, that `encode` can read at most; None is any number."""
    longest_target: int | None = None
    """Target tokens, START included, that `decode` can read at most; None is any number."""

    @property
    def members(self) -> Sequence["Model"]:
        """The models that it is made of: itself, but for an ensemble."""
        return [self]

    def layers(self) -> list[tuple[nn.Module, list[str]]]:
        """Parts with weights of their own, and their methods beside `forward` that use these: what can lie in several processes."""
        return []

    def pack(self, precision: Precision) -> None:
        """Lay the weights out for translating on this CPU, in this precision: the model cannot be trained any more, but saved."""
        pack(self, precision)

    def encode(self, source: Int[Tensor, "B S"]) -> State:
        """Read padded source ids."""
        raise NotImplementedError

    def decode(self, target: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        """Read T more target ids of each hypothesis; give the features that predict the id after each."""
        raise NotImplementedError

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Unnormalised log-probabilities of the next id."""
        raise NotImplementedError
