"""How active the neurons of feed-forward sub-layers are, over many tokens, in memory that does not grow.

Shapes: B texts of a batch, S source and T target tokens, P tokens of a side, N tokens, F = d_ff, K strongest
tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.inspection.analyse.attributed import shifted
from dragoman.inspection.record.inspected import InspectedModel
from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.neurons import SIDES, Side, sides_with
from dragoman.inspection.record.record import Array
from dragoman.inspection.record.recording import as_array, record_hidden
from dragoman.model.transformer import FeedForward
from dragoman.system.errors import DragomanError
from dragoman.translation.token_ids import explain_out_of_memory

LAST = 2**32 - 1  # position of a token

Place = tuple[Side, int]
"""A side, and a layer counted from 1."""


@dataclass
class Activity:
    """What is known of a layer's F neurons, over the tokens so far."""

    width: int
    samples: int
    tokens: int = 0
    ranks: Int[Tensor, "F K"] = field(init=False)
    """The tokens at which each neuron is most active, strongest first, as `ranks_of` gives them; of those at
    which its activation is 0, the rank means nothing."""
    active: Int[Tensor, "F"] = field(init=False)
    """At how many tokens the activation is greater than 0."""
    total: Float[Tensor, "F"] = field(init=False)
    greatest: Float[Tensor, "F"] = field(init=False)

    def __post_init__(self) -> None:
        self.ranks = torch.zeros(self.width, self.samples, dtype=torch.int64)
        self.active = torch.zeros(self.width, dtype=torch.int64)
        self.total = torch.zeros(self.width, dtype=torch.float64)
        self.greatest = torch.full((self.width,), -torch.inf)

    def add(self, hidden: Float[Tensor, "N F"], positions: Int[Tensor, "N"]) -> None:
        """Take the activations at some tokens into account; each token has another position."""
        ranks = ranks_of(hidden, positions.to(hidden.device)).T  # [F N]
        strongest = ranks.topk(min(self.samples, len(positions))).values.cpu()
        self.tokens += len(positions)
        self.ranks = torch.cat([self.ranks, strongest], 1).topk(self.samples).values
        self.active += (hidden > 0).sum(0).cpu()
        self.total += hidden.double().sum(0).cpu()
        self.greatest = torch.maximum(self.greatest, hidden.amax(0).float().cpu())

    @property
    def magnitudes(self) -> Array:
        """The greatest absolute activation of each neuron [F]."""
        return as_array((self.ranks[:, 0] >> 32).int().view(torch.float32))

    def strongest(self, neuron: int) -> list[int]:
        """Where a neuron, counted from 0, is most active: positions at which its activation is not 0."""
        ranks = self.ranks[neuron]
        return [LAST - (rank & LAST) for rank in ranks.tolist() if rank >> 32]


def ranks_of(hidden: Float[Tensor, "N F"], positions: Int[Tensor, "N"]) -> Int[Tensor, "N F"]:
    """Whole numbers that order tokens: the greatest absolute activation first, in float32, and of equal ones
    the first position.

    The bits of a float that is not negative, read as a whole number, are in the order of the floats. They are
    the upper half of a rank; the lower half counts positions back from the last possible one.
    """
    bits = hidden.abs().float().contiguous().view(torch.int32).long()
    return (bits << 32) + (LAST - positions)[:, None]


# ---- the activations of a batch


def layers_with(
    model: InspectedModel, kind: Kind | None, layer: int | None, neuron: int | None
) -> dict[Place, int]:
    """The layers that are asked for, with their numbers of neurons.

    Raises `DragomanError` if the model has no feed-forward sub-layers, or no such layer or neuron.
    """
    widths: dict[Side, list[int]] = {side: [] for side in SIDES}
    for name, module in model.named_modules():
        if isinstance(module, FeedForward):
            widths["encoder" if name.startswith("encoder.") else "decoder"].append(module.outer.in_features)
    if not all(widths.values()):
        raise DragomanError(
            f"This model ({model.settings.architecture}) has no feed-forward sub-layers, whose hidden units "
            "are the neurons; give a Transformer or an enriched model."
        )
    sizes = {side: (len(layers), layers[0]) for side, layers in widths.items()}
    return {
        (side, number): width
        for side in sides_with(sizes, kind, layer, neuron)
        for number, width in enumerate(widths[side], 1)
        if layer in (None, number)
    }


@torch.no_grad()
def hidden_units(
    model: InspectedModel, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"], places: Sequence[Place]
) -> dict[Place, Float[Tensor, "B P F"]]:
    """The activations of these layers for padded pairs, by forced decoding."""
    with explain_out_of_memory(len(source)), record_hidden(model) as hidden:
        state = model.encode(source)
        if any(side == "decoder" for side, _ in places):
            model.decode(shifted(model, target), state)
        return {(side, layer): hidden[f"{side}.{layer - 1}.feed_forward"][0] for side, layer in places}
