"""Parameters and multiply-adds of a Transformer by part, from its settings. This module imports no torch.

A multiply-add is one product and one sum of a matrix product, 2 floating-point operations. Sums, softmax,
layer normalisation and the look-up of embeddings are not counted, as in torch's FlopCounterMode.
"""

import math

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes import weight_shapes

Counts = dict[str, int]  # by part of the model

PARTS = {
    "_embedding.": "embeddings",
    "_positions.": "positions",
    "combine.": "positions",
    "norm": "normalisation",
    "self_attention": "self-attention",
    "cross_attention": "encoder-decoder attention",
    "feed_forward": "feed-forward",
}
"""What the names of a part's weights contain; the first that fits decides."""


def part_of(name: str) -> str:
    """The part of a model that a weight belongs to; `other` for those of recurrent models.

    The output projection and its bias count with the embeddings, which it usually is one with.
    """
    if name.startswith("output"):
        return "embeddings"
    return next((part for word, part in PARTS.items() if word in name), "other")


def parameters_by_part(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Counts:
    """Numbers in the weights of each part; tied weights count once.

    Raises `DragomanError` as `weight_shapes`.
    """
    counts: Counts = {}
    for name, shape in weight_shapes(settings, source_vocabulary, target_vocabulary).items():
        part = part_of(name)
        counts[part] = counts.get(part, 0) + math.prod(shape)
    return counts


def count_parameters(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> int:
    """Numbers in all weights."""
    return sum(parameters_by_part(settings, source_vocabulary, target_vocabulary).values())


def multiply_adds_by_part(settings: ModelSettings, vocabulary: int, source: int, target: int) -> Counts:
    """Multiply-adds of one forward pass over a sentence of `source` and `target` tokens, ends included.

    As computed, a masked score costs as much as another one. Of a Transformer alone.
    """
    width, depth = settings.d_model, settings.decoder_layers
    keys, values = settings.heads * settings.key_width, settings.heads * settings.value_width
    own = width * (2 * keys + 2 * values)  # W^Q, W^K, W^V and W^O, for each token
    pairs = keys + values  # of QKᵀ and of the weights with V, for each query and key
    # Additive scores cost as much as QKᵀ; general ones have another product for each query.
    queries = keys * settings.key_width if settings.attention_score == "general" else 0
    counts = {
        "encoder self-attention": settings.encoder_layers
        * (source * (own + queries) + self_attention_pairs(settings, source) * pairs),
        "encoder feed-forward": settings.encoder_layers * source * 2 * width * settings.d_ff,
        "decoder self-attention": depth
        * (target * (own + queries) + self_attention_pairs(settings, target, causal=True) * pairs),
        "encoder-decoder attention": depth
        * (target * (width * pairs + queries) + source * width * pairs + target * source * pairs),
        "decoder feed-forward": depth * target * 2 * width * (settings.decoder_d_ff or settings.d_ff),
        "logits": target * width * vocabulary,
    }
    if settings.concatenate_positions:
        counts["positions"] = (source + target) * 2 * width**2
    return counts


def self_attention_pairs(settings: ModelSettings, tokens: int, causal: bool = False) -> int:
    """Pairs of a query and a key that self-attention computes; a neighbourhood is computed in blocks."""
    if settings.neighbourhood is None or tokens <= 3 * (radius := settings.neighbourhood // 2):
        return tokens**2
    return math.ceil(tokens / radius) * radius * (2 if causal else 3) * radius


def multiply_adds_per_target_token(settings: ModelSettings, vocabulary: int, length: int) -> float:
    """Of one forward pass over sentences of `length` source and as many target tokens."""
    return sum(multiply_adds_by_part(settings, vocabulary, length, length).values()) / length
