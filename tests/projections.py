"""Made-up queries, keys and values, for inspections in tests."""

import numpy as np

from dragoman.inspection.masks import PADDING, Masks
from dragoman.inspection.projected import Projected, Projections


def fake_projections(source: int, target: int, layers: tuple[int, int], heads: int, d_k: int) -> Projections:
    """Random numbers of the right shapes for encoder and decoder layers, `layers`."""
    random = np.random.default_rng(7)

    def projected(depth: int, queries: int, keys: int, allowed: np.ndarray) -> Projected:
        def normal(positions: int) -> np.ndarray:
            return random.normal(size=(depth, heads, positions, d_k)).astype(np.float32)

        return Projected(normal(queries), normal(keys), normal(keys), allowed, normal(queries))

    causal, every = np.tri(target, dtype=bool), np.ones((1, source), bool)
    return Projections(
        projected(layers[0], source, source, every),
        projected(layers[1], target, target, causal),
        projected(layers[1], target, source, every),
    )


def fake_masks(source: int, target: int, readable: int) -> Masks:
    """Those of a Transformer with so many tokens, of which it may attend to the first `readable` sources."""
    keys = np.arange(source + PADDING) < readable
    causal = np.tri(target + PADDING, dtype=bool)
    encoder, cross = (np.tile(keys, (rows + PADDING, 1)) for rows in (source, target))
    return Masks(encoder, cross, causal, causal & (np.arange(target + PADDING) < target))
