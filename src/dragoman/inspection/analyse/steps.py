"""The steps of equation 1 for one query of one head (section 3.2.1).

Shapes: L layers, H heads, Q queries, N keys, K = d_k, Kv = d_v.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.projected import Numbers, Projected, Projections
from dragoman.inspection.record.record import Record
from dragoman.system.errors import DragomanError


@dataclass(frozen=True)
class Steps:
    """Each number between a query and its head's output, for all N keys."""

    query: Numbers
    """q [K]."""
    keys: Numbers
    """[N K]."""
    scores: Numbers
    """q · k for each key [N]."""
    scaled: Numbers
    """The scores divided by √d_k [N]."""
    allowed: npt.NDArray[np.bool_]
    """The mask [N]: a key that is not allowed has −∞ in place of its scaled score."""
    weights: npt.NDArray[np.floating[Any]]
    """The softmax that the model computed [N]."""
    values: Numbers
    """[N Kv]."""
    output: Numbers
    """The weighted sum of the values, as W^O was given it [Kv]."""


def projections_of(inspection: Record) -> Projections:
    """Queries, keys and values. Raises `DragomanError` if equation 1 is not what the model computes."""
    if inspection.projections is None:
        raise DragomanError(
            "The numbers of a head are of scaled dot-product attention to all positions, which this "
            "model does not have."
        )
    return inspection.projections


def steps(inspection: Record, kind: Kind, layer: int, head: int, query: int) -> Steps:
    """The steps of a query, with numbers from 1.

    Raises `DragomanError` if there is no such layer, head or query, or no scaled dot-product attention.
    """
    projected, weights = projections_of(inspection).of(kind), inspection.attention.of(kind)
    for name, number, count in zip(
        ("layer", "head", "query"), (layer, head, query), weights.shape, strict=False
    ):
        if not 1 <= number <= count:
            raise DragomanError(f"There is no {name} {number}; there are {count}, counted from 1.")
    place = (layer - 1, head - 1)
    products, scaled = scores(projected)
    return Steps(
        projected.queries[place][query - 1],
        projected.keys[place],
        products[place][query - 1].numpy(),
        scaled[place][query - 1].numpy(),
        np.broadcast_to(projected.allowed, weights.shape[2:])[query - 1],
        weights[place][query - 1],
        projected.values[place],
        projected.outputs[place][query - 1],
    )


def scores(projected: Projected) -> tuple[Tensor, Tensor]:
    """Q Kᵀ and Q Kᵀ / √d_k [L H Q N], also for keys that are masked."""
    queries, keys = torch.from_numpy(projected.queries), torch.from_numpy(projected.keys)
    products = queries @ keys.transpose(-2, -1)
    return products, products / math.sqrt(queries.size(-1))
