"""Parameters and multiply-adds of a model by part, from its settings. This module imports no torch.

Enriched models have another sub-layer in place of self-attention, the token mixer.

A multiply-add is one product and one sum of a matrix product, 2 floating-point operations. Sums, softmax,
layer normalisation and the look-up of embeddings are not counted, as in torch's FlopCounterMode.
"""

import math

from dragoman.model.baseline_costs import multiply_adds_of_baseline
from dragoman.model.settings import ENRICHED, ModelSettings
from dragoman.model.shapes.baseline_shapes import token_mixer_shapes
from dragoman.model.shapes.weight_shapes import weight_shapes

Counts = dict[str, int]  # by part of the model

PARTS = {
    "_embedding.": "embeddings",
    "_positions.": "positions",
    "combine.": "positions",
    "norm": "normalisation",
    "self_attention": "self-attention",
    "cross_attention": "encoder-decoder attention",
    "feed_forward": "feed-forward",
    "token_mixer": "token mixer",
    "attention": "attention",
    "encoder": "encoder",
    "decoder": "decoder",
    "start": "decoder",
    "features": "decoder",
}
"""What the names of a part's weights contain; the first that fits decides. The last five are of an LSTM, a
GRU or ConvS2S."""


def part_of(name: str) -> str:
    """The part of a model that a weight belongs to.

    The output projection and its bias count with the embeddings, with which it is usually tied.
    """
    if name.startswith("output"):
        return "embeddings"
    return next(part for word, part in PARTS.items() if word in name)


def parameters_by_part(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Counts:
    """Parameters of each part; tied weights count once.

    Raises `DragomanError` as `weight_shapes`.
    """
    counts: Counts = {}
    for name, shape in weight_shapes(settings, source_vocabulary, target_vocabulary).items():
        part = part_of(name)
        counts[part] = counts.get(part, 0) + math.prod(shape)
    return counts


def count_parameters(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> int:
    """The number of parameters."""
    return sum(parameters_by_part(settings, source_vocabulary, target_vocabulary).values())


def multiply_adds_by_part(settings: ModelSettings, vocabulary: int, source: int, target: int) -> Counts:
    """Multiply-adds of one forward pass over a sentence of `source` and `target` tokens, ends included.

    As computed, a masked score costs as much as another one.
    """
    if settings.architecture not in ("transformer", *ENRICHED):
        return multiply_adds_of_baseline(settings, vocabulary, source, target)
    width, depth, heads = settings.d_model, settings.decoder_layers, width_of_heads(settings)
    name = "token mixer" if settings.architecture in ENRICHED else "self-attention"
    # W^Q and W^O for each target token, W^K and W^V for each source token, then equation 1.
    cross_attention = (source + target) * width * heads + target * (query_map(settings) + source * heads)
    counts = {
        f"encoder {name}": settings.encoder_layers * first_sub_layer(settings, source, encodes=True),
        "encoder feed-forward": settings.encoder_layers * source * 2 * width * settings.d_ff,
        f"decoder {name}": depth * first_sub_layer(settings, target, encodes=False),
        "encoder-decoder attention": depth * cross_attention,
        "decoder feed-forward": depth * target * 2 * width * (settings.decoder_d_ff or settings.d_ff),
        "logits": target * width * vocabulary,
    }
    if settings.concatenate_positions:
        counts["positions"] = (source + target) * 2 * width**2
    return counts


def first_sub_layer(settings: ModelSettings, tokens: int, encodes: bool) -> int:
    """Multiply-adds of self-attention over a text, or of the token mixer of an enriched model."""
    if settings.architecture in ENRICHED:
        # Each of its matrices has one product with a token, or with the state before the token.
        shapes = token_mixer_shapes(settings, "", encodes).values()
        return tokens * sum(math.prod(shape) for shape in shapes if len(shape) == 2)
    if settings.decoder_mixer == "ssru" and not encodes:
        return tokens * 2 * settings.d_model**2
    heads = width_of_heads(settings)
    projections = 2 * settings.d_model * heads + query_map(settings)  # with W^Q, W^K, W^V and W^O
    return tokens * projections + self_attention_pairs(settings, tokens, causal=not encodes) * heads


def width_of_heads(settings: ModelSettings) -> int:
    """The heads' h (d_k + d_v): multiply-adds of QKᵀ and of the weights with V, for a query and a key."""
    return settings.heads * (settings.key_width + settings.value_width)


def query_map(settings: ModelSettings) -> int:
    """Multiply-adds of a query with W, if scores are general. Additive scores cost as much as QKᵀ."""
    return settings.heads * settings.key_width**2 if settings.attention_score == "general" else 0


def self_attention_pairs(settings: ModelSettings, tokens: int, causal: bool) -> int:
    """Pairs of a query and a key that self-attention computes; a neighbourhood is computed in blocks."""
    if settings.neighbourhood is None or tokens <= 3 * (radius := settings.neighbourhood // 2):
        return tokens**2
    return math.ceil(tokens / radius) * radius * (2 if causal else 3) * radius


def multiply_adds_per_target_token(settings: ModelSettings, vocabulary: int, length: int) -> float:
    """Of one forward pass over sentences of `length` source and as many target tokens."""
    return sum(multiply_adds_by_part(settings, vocabulary, length, length).values()) / length
