"""Which layers and heads a file holds in numbers: a page of a long sentence would be too large with all.

- Attention weights: all layers while they fit in `SizeLimits.weights`; else one layer; else one head of it.
  Each head then has a map of at most 48 × 48 cells, each the largest weight of those it stands for.
- Weights between words: if they fit beside those between tokens, and the mean of the decoder's heads, in
  `SizeLimits.weights`.
- Queries, keys, values and scores: all layers while they fit in `SizeLimits.projections`; else one layer;
  else one head of it.
- Neurons: at each token the most active ones, `SizeLimits.neurons` of each layer at all tokens.

The layer and the head can be chosen; by default they are the last layer and the first head.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.projected import Numbers
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.record.words import words_are_tokens, words_of_kind
from dragoman.system.errors import DragomanError

OVERVIEW = 48  # rows and columns of a map that stands for a head's weights


@dataclass(frozen=True)
class SizeLimits:
    """Bounds in bytes, as base64 of float16."""

    weights: int
    projections_least: int
    projections_most: int
    neurons: int
    """Neurons of a layer, whose activations at all tokens are held."""

    def projections(self, weights: int) -> int:
        """As much as the weights take, between the two bounds."""
        return min(max(weights, self.projections_least), self.projections_most)


FILE = SizeLimits(20_000_000, 700_000, 7_000_000, 24)
"""Of the HTML file: it holds all attention weights of the paper's base model for 30 tokens, not for 512."""
LIVE = SizeLimits(20_000_000, 16_000_000, 16_000_000, 1024)
"""Of an answer of the server."""


@dataclass(frozen=True)
class LayersAndHeads:
    """Layers by kind, and heads of each of them."""

    layers: dict[Kind, list[int]]
    heads: list[int]


@dataclass(frozen=True)
class Contents:
    """The places of layers and heads that are held, counted from 0."""

    weights: LayersAndHeads
    projections: LayersAndHeads
    words: bool = True
    """Whether the weights between words are held, too, of the same layers and heads."""
    neurons: int | None = None
    """How many neurons of each layer are held at all tokens; None is all."""


def contents(
    inspection: Record, limits: SizeLimits | None = None, layer: int | None = None, head: int | None = None
) -> Contents:
    """What is held; all without a `SizeLimits`. `layer` and `head` are counted from 1.

    Of a side with fewer layers it is the last layer. Raises `DragomanError` if the model has no such layer or
    head.
    """
    depths = {kind: len(inspection.attention.of(kind)) for kind in KINDS}
    heads = inspection.attention.cross.shape[1]
    for name, number, count in (("layer", layer, max(depths.values())), ("head", head, heads)):
        if number is not None and not 1 <= number <= count:
            raise DragomanError(f"There is no {name} {number}; this model has {count}, counted from 1.")
    last = {kind: [min(layer or depth, depth) - 1] if depth else [] for kind, depth in depths.items()}
    all_places = LayersAndHeads(
        {kind: list(range(depth)) for kind, depth in depths.items()}, list(range(heads))
    )
    if limits is None:
        return Contents(all_places, all_places)
    choices = [all_places, LayersAndHeads(last, all_places.heads), LayersAndHeads(last, [(head or 1) - 1])]
    weights = first_that_fits(choices, partial(weights_bytes, inspection), limits.weights)
    limit = limits.projections(weights_bytes(inspection, weights))
    projections = first_that_fits(choices, partial(projections_bytes, inspection), limit)
    between_tokens = weights_bytes(inspection, weights) + mean_bytes(inspection, weights)
    words = between_tokens + words_bytes(inspection, weights) <= limits.weights
    return Contents(weights, projections, words, limits.neurons)


def first_that_fits(
    choices: Sequence[LayersAndHeads], bytes_of: Callable[[LayersAndHeads], int], max_bytes: int
) -> LayersAndHeads:
    """The first choice of at most so many bytes, or the last one."""
    return next((choice for choice in choices if bytes_of(choice) <= max_bytes), choices[-1])


def weights_bytes(inspection: Record, places: LayersAndHeads) -> int:
    """The size of the weights of these layers and heads."""
    return sum(size(inspection.attention.of(kind), places, kind) for kind in KINDS)


def mean_bytes(inspection: Record, places: LayersAndHeads) -> int:
    """The size of the mean of the heads of these layers of the decoder."""
    return size(inspection.attention.decoder, LayersAndHeads(places.layers, [0]), "decoder")


def words_bytes(inspection: Record, places: LayersAndHeads) -> int:
    """The size of the weights between words of these layers and heads, a byte each in base64."""
    cells = 0
    for kind in KINDS:
        if not words_are_tokens(inspection, kind):
            queries, keys = words_of_kind(inspection, kind)
            cells += len(places.layers[kind]) * len(places.heads) * (queries[-1] + 1) * (keys[-1] + 1)
    return cells * 4 // 3


def projections_bytes(inspection: Record, places: LayersAndHeads) -> int:
    """The size of queries, keys, values, outputs and scores of these layers and heads."""
    if inspection.projections is None:
        return 0
    total = weights_bytes(inspection, places)
    for kind in KINDS:
        projections = inspection.projections.of(kind)
        arrays = (projections.queries, projections.keys, projections.values, projections.outputs)
        total += sum(size(array, places, kind) for array in arrays)
    return total


def size(array: Numbers, places: LayersAndHeads, kind: Kind) -> int:
    """Bytes of these layers and heads of [L H …] in float16 and base64."""
    return len(places.layers[kind]) * len(places.heads) * math.prod(array.shape[2:]) * 2 * 4 // 3


def overview(weights: Array) -> Array:
    """[L H Q K] with at most 48 rows and columns, each cell the largest of those that it stands for."""
    for axis in (2, 3):
        count = weights.shape[axis]
        starts = np.unique(np.arange(min(count, OVERVIEW)) * count // min(count, OVERVIEW))
        weights = np.maximum.reduceat(weights, starts, axis)
    return weights
