"""Neurons: the hidden units of the feed-forward sub-layers (section 3.3). This module imports no torch.

Shapes: L layers, S source and T target tokens, P tokens of a side, F = d_ff, K the most active neurons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.projected import Numbers
from dragoman.system.errors import DragomanError

Side = Literal["encoder", "decoder"]
SIDES: tuple[Side, ...] = get_args(Side)


@dataclass(frozen=True)
class Neurons:
    """The activations of all neurons: what W_2 was multiplied by, after the activation function."""

    encoder: Numbers
    """At each source token [L S F]."""
    decoder: Numbers
    """At the position that predicts each target token [L T F]. F may differ from the encoder's."""

    def of(self, side: Side) -> Numbers:
        """Those of a side."""
        return {"encoder": self.encoder, "decoder": self.decoder}[side]


def most_active(activations: Numbers, count: int) -> npt.NDArray[np.intp]:
    """The places along the last axis [… K] of the numbers with the greatest absolute value, greatest first.

    K is `count`, or the length of the axis. Of equal numbers the first comes first.
    """
    return np.argsort(-np.abs(activations), -1, kind="stable")[..., :count]


def most_active_of_layer(activations: Numbers, count: int) -> npt.NDArray[np.intp]:
    """Of each layer of [L P F], the neurons [L K] with the greatest absolute activation at any token."""
    return most_active(np.abs(activations).max(1), count)


def at(array: npt.NDArray[Any], places: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """The numbers of the last axis at these places."""
    return np.take_along_axis(array, places, -1)


def sides_with(
    sizes: Mapping[Side, tuple[int, int]], kind: Kind | None, layer: int | None, neuron: int | None
) -> list[Side]:
    """The sides, or the side `kind`, that have this layer and neuron, counted from 1.

    `sizes` are the numbers of layers of each side, and of neurons of its layers. Raises `DragomanError` if
    there is no such side.
    """
    if kind == "cross":
        raise DragomanError("Neurons are those of the encoder or of the decoder: give one of them as --kind.")
    sides = [side for side in SIDES if kind in (None, side)]
    layers = [side for side in sides if layer is None or 1 <= layer <= sizes[side][0]]
    if not layers:
        counts = " and ".join(f"the {side} has {sizes[side][0]}" for side in sides)
        raise DragomanError(f"There is no layer {layer}; {counts}, counted from 1.")
    matching = [side for side in layers if neuron is None or 1 <= neuron <= sizes[side][1]]
    if not matching:
        counts = " and ".join(f"a layer of the {side} has {sizes[side][1]}" for side in layers)
        raise DragomanError(f"There is no neuron {neuron}; {counts}, counted from 1.")
    return matching
