"""Multiply-adds of an LSTM, a GRU or ConvS2S by part, from their settings. This module imports no torch.

What is counted is what `model/costs.py` counts of a Transformer.
"""

import math

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.baseline_shapes import baseline_shapes


def multiply_adds_of_baseline(
    settings: ModelSettings, vocabulary: int, source: int, target: int
) -> dict[str, int]:
    """Multiply-adds of one forward pass over a sentence of `source` and `target` tokens, ends included.

    Each matrix has one product for each position that it reads.
    """
    counts = {"encoder": 0, "decoder": 0, "attention": products_of_attention(settings, source, target)}
    for name, shape in baseline_shapes(settings, {}).items():
        if len(shape) == 2 and "positions" not in name:
            part = "attention" if "attention" in name else side_of(name)
            counts[part] += readings(name, source, target) * math.prod(shape)
    return counts | {"logits": target * settings.d_model * vocabulary}


def products_of_attention(settings: ModelSettings, source: int, target: int) -> int:
    """Multiply-adds without weights: of queries with keys, and of attention weights with values."""
    pairs = source * target * settings.d_model
    if settings.architecture == "conv":
        return settings.decoder_layers * 2 * pairs
    # The values are twice as wide as a query. The additive score has no product of a query and a key.
    return 3 * pairs if settings.attention_score in ("dot", "general") else 2 * pairs


def readings(name: str, source: int, target: int) -> int:
    """How many vectors a weight is multiplied with."""
    if name == "start.weight":  # the mean of the source
        return 1
    if name == "attention.score.weight":  # of the additive score: every pair of a query and a key
        return source * target
    return source if side_of(name) == "encoder" else target


def side_of(name: str) -> str:
    """The side whose positions a weight reads. The keys of an LSTM's or GRU's attention are of the source."""
    return "encoder" if name.startswith(("encoder", "attention.key")) else "decoder"
