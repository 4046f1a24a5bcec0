"""What the baselines share: their embeddings, and the states of their decoders.

Shapes: B sentences, R = B · W prefixes of W hypotheses per sentence.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from jaxtyping import Bool, Int
from torch import Tensor, nn

from dragoman.model.interface import State
from dragoman.model.settings import ModelSettings

SomeState = TypeVar("SomeState", bound="PrefixState")


def make_embeddings(
    settings: ModelSettings, source_vocabulary: int, target_vocabulary: int, std: float
) -> tuple[nn.Embedding, nn.Embedding, nn.Embedding]:
    """The target embedding, the source embedding and the output projection: one object where they are tied.

    `std` is the standard deviation of their initial weights. Raises `DragomanError` for tied embeddings of
    different vocabularies.
    """
    settings.check_vocabularies(source_vocabulary, target_vocabulary)
    width = settings.d_model
    target = nn.Embedding(target_vocabulary, width)
    source = target if settings.tied == "all" else nn.Embedding(source_vocabulary, width)
    output = nn.Embedding(target_vocabulary, width) if settings.tied == "none" else target
    for embedding in dict.fromkeys((target, source, output)):  # in this order, each once
        nn.init.normal_(embedding.weight, std=std)
    return target, source, output


@dataclass(frozen=True)
class PrefixState(State):
    """A state that has one row for each prefix; subclasses add what the prefixes of a sentence share."""

    mask: Bool[Tensor, "B *N"]
    """Where the source may be attended to."""
    past: list[Tensor]
    """[R …] each: what the decoder keeps of a prefix."""

    def allocate(self: SomeState, beams: int, max_length: int) -> SomeState:  # noqa: ARG002  what is kept has one size
        return replace(self, past=[part.repeat_interleave(beams, 0) for part in self.past])

    def reorder(self: SomeState, rows: Int[Tensor, "R"]) -> SomeState:
        return replace(self, past=[part[rows] for part in self.past])

    def past_of(self, sentences: Int[Tensor, "B2"]) -> list[Tensor]:
        """What is kept of the prefixes of these sentences."""
        return [part.unflatten(0, (len(self.mask), -1))[sentences].flatten(0, 1) for part in self.past]
