"""What pictures and the page show of many numbers at once. This module imports no torch.

Shapes: P positions, N layers, K sub-layers, D = d_model.
"""

import numpy as np
import numpy.typing as npt

from dragoman.inspection.record.record import Array, Record
from dragoman.model.settings import PositionKind
from dragoman.model.sinusoids import rates

Table = npt.NDArray[np.float64]


def products_by_distance(positions: Array) -> Table:
    """The least, the mean and the greatest dot product of two positions [P D] by their distance [P 3]."""
    table = positions.astype(np.float64)
    products = table @ table.T
    rows = [products.diagonal(distance) for distance in range(len(products))]
    return np.array([(row.min(), row.mean(), row.max()) for row in rows]).reshape(len(rows), 3)


def wavelengths(kind: PositionKind, width: int) -> Table:
    """Of each dimension of a table of sinusoids, the positions after which its numbers repeat [D].

    Section 3.5: from 2π in geometric steps. Tables of another kind have none: the result is empty.
    """
    if not kind.startswith("sinusoidal"):
        return np.zeros(0)
    periods = 2 * np.pi / rates(width, kind)
    interleaved = kind == "sinusoidal"
    return np.repeat(periods, 2)[:width] if interleaved else np.concatenate([periods, periods[: width // 2]])


def decisions(inspection: Record) -> list[int | None]:
    """Where the decision for each target token fell: the decoder layer, counted from 1, from which on it is
    the likeliest token after every layer; None if it is not the likeliest after the last layer.
    """
    layers: list[int | None] = []
    for place, token in enumerate(inspection.target):
        agrees = [layer[place][0].token == token for layer in inspection.lens]
        last = next((number for number, same in enumerate(reversed(agrees)) if not same), len(agrees))
        layers.append(len(agrees) - last + 1 if last else None)
    return layers


def mean_norms(norms: Array, sublayers: Array) -> Table:
    """Of each layer, norms of its input and of what its sub-layers add, means over positions [N 1+K].

    `norms` [N+1 P] and `sublayers` [N K P] are those of a side of `ResidualStream`.
    """
    return parts_of_layers(norms, sublayers).mean(2)


def mean_shares(norms: Array, sublayers: Array) -> Table:
    """As `mean_norms`, of each position as shares of the sum of its norms."""
    parts = parts_of_layers(norms, sublayers)
    return (parts / np.maximum(parts.sum(1, keepdims=True), 1e-9)).mean(2)


def parts_of_layers(norms: Array, sublayers: Array) -> Table:
    """The norms of each layer's input and of what its sub-layers add [N 1+K P]."""
    inputs = norms[: len(sublayers), None]
    return np.concatenate([inputs, sublayers], 1).astype(np.float64)
