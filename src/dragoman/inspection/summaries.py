"""What pictures and the page show of many numbers at once. This module imports no torch.

Shapes: P positions, N layers, K sub-layers, H heads, D = d_model, T target tokens.
"""

import numpy as np
import numpy.typing as npt

from dragoman.inspection.inspection import Array

Table = npt.NDArray[np.float64]


def products_by_distance(positions: Array) -> Table:
    """The least, the mean and the greatest dot product of two positions [P D] by their distance [P 3]."""
    table = positions.astype(np.float64)
    products = table @ table.T
    rows = [products.diagonal(distance) for distance in range(len(products))]
    return np.array([(row.min(), row.mean(), row.max()) for row in rows]).reshape(len(rows), 3)


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
