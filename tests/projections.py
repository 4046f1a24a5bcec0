"""Made-up queries, keys, values, masks and activations, for inspections in tests."""

import numpy as np

from dragoman.inspection.record.masks import PADDING, Masks
from dragoman.inspection.record.neurons import Neurons
from dragoman.inspection.record.projected import Projected, Projections


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
    return Masks(encoder, cross, causal)


def fake_neurons(source: int, target: int, layers: tuple[int, int], d_ff: int) -> Neurons:
    """Activations of a ReLU, of which most are 0, for encoder and decoder layers, `layers`."""
    random = np.random.default_rng(8)

    def activations(depth: int, tokens: int) -> np.ndarray:
        return np.maximum(random.normal(-1, 1, (depth, tokens, d_ff)), 0).astype(np.float32)

    return Neurons(activations(layers[0], source), activations(layers[1], target))
