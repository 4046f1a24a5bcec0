"""What training and search know of a model.

Shapes: B sentences, S source and T target tokens, W hypotheses per sentence.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.model.settings import ModelSettings


class State(ABC):
    """What a model knows of B sources and of the R = B · W target prefixes that it has read so far.

    `decode` may write into the state that it gets: use each state once.
    """

    @abstractmethod
    def allocate(self, beams: int, max_length: int) -> "State":
        """The state before the first token, for `beams` hypotheses of up to `max_length` tokens each."""

    @abstractmethod
    def reorder(self, rows: Int[Tensor, "R"]) -> "State":
        """Put the prefix of hypothesis `rows[i]` in place i. Rows move within their sentence only."""

    @abstractmethod
    def select(self, sentences: Int[Tensor, "B2"]) -> "State":
        """These sentences, in this order, with all their hypotheses.

        Before the first token a sentence may occur several times.
        """


class Model(nn.Module):
    """An encoder-decoder.

    `decode` gives the same features for all tokens at once as, after `State.allocate`, token by token
    (tests/test_laws.py).
    """

    settings: ModelSettings
    """An ensemble has none; its members have."""
    longest_source: int | None = None
    """The most source tokens, END included, that `encode` can read; None means no limit."""
    longest_target: int | None = None
    """The most target tokens, START included, that `decode` can read; None means no limit."""

    @property
    def members(self) -> Sequence["Model"]:
        """The models of an ensemble; of any other model itself."""
        return [self]

    def layers(self) -> list[tuple[nn.Module, list[str]]]:
        """The units of sharding: modules, and their methods besides `forward` that are called."""
        return []

    def encode(self, source: Int[Tensor, "B S"]) -> State:
        """Read padded source ids."""
        raise NotImplementedError

    def decode(self, target: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], State]:
        """Read T more target ids of each hypothesis; give the features that predict the id after each."""
        raise NotImplementedError

    def forward(self, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The logits of the id after each target id, of padded ids; targets begin with START."""
        features, _ = self.decode(target, self.encode(source))
        return self.logits(features)

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Unnormalised log-probabilities of the next id."""
        raise NotImplementedError
