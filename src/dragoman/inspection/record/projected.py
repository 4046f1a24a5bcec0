"""What equation 1 was computed from: queries, keys and values. This module imports no torch.

Shapes: L layers, H heads, Q queries, N keys, K = d_k, Kv = d_v.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.inspection.record.kinds import Kind

Numbers = npt.NDArray[np.floating[Any]]
"""float64 for a model in float64, else float32: no number of the model is rounded."""


@dataclass(frozen=True)
class Projected:
    """The queries, keys and values of all layers and heads of a kind of attention."""

    queries: Numbers
    """[L H Q K]."""
    keys: Numbers
    """[L H N K]."""
    values: Numbers
    """[L H N Kv]."""
    allowed: npt.NDArray[np.bool_]
    """Which keys a query may attend to: [1 N] if it is the same for all queries, else [Q N]."""
    outputs: Numbers
    """The weighted sums of values that W^O was given [L H Q Kv]."""

    def held(self, layers: Sequence[int], heads: Sequence[int]) -> "Projected":
        """Those of these layers and heads, counted from 0."""
        place = np.ix_(layers, heads)
        return Projected(
            self.queries[place], self.keys[place], self.values[place], self.allowed, self.outputs[place]
        )


@dataclass(frozen=True)
class Projections:
    """Those of the three kinds. Rows and columns are those of `Attention`.

    The keys and values of the decoder's self-attention are those of the translation's prefix.
    """

    encoder: Projected
    decoder: Projected
    cross: Projected

    def of(self, kind: Kind) -> Projected:
        """Those of a kind."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]
