"""What a head contributes: the change of log P(translation | sentence) without it (Michel et al. 2019).

Shapes: L layers, H heads, Kv = d_v; one sentence at a time.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.inspection.inspect import one_transformer
from dragoman.inspection.inspection import Array
from dragoman.inspection.recording import attentions
from dragoman.model.attention import MultiHeadAttention
from dragoman.search.scoring import token_log_probabilities
from dragoman.system.errors import DragomanError
from dragoman.translation.analysis import forced_batches
from dragoman.translation.translator import Translator

KINDS = {
    "encoder": "encoder.{}.self_attention",
    "decoder": "decoder.{}.self_attention",
    "cross": "decoder.{}.cross_attention",
}
"""The names of the attentions of each kind, by layer."""


@dataclass(frozen=True)
class HeadEffects:
    """The log-probability of a translation without each head, minus that with all heads, in nats."""

    log_probability: float
    """With all heads."""
    encoder: Array
    """Of each head of encoder self-attention [L H]."""
    decoder: Array
    """Of decoder self-attention [L H]."""
    cross: Array
    """Of encoder-decoder attention [L H]."""


def head_effects(translator: Translator, sentence: str, translation: str | Sequence[str]) -> HeadEffects:
    """The effect of each head on a translation, a text or its tokens, by forced decoding without the head.

    Raises `DragomanError` as `Translator.score`, and for a model that is not one Transformer.
    """
    model = one_transformer(translator)
    ((_, source, target),) = forced_batches(translator, [(sentence, translation)], 1)
    if source.size(1) == 1:
        raise DragomanError("The sentence is blank: no head contributes to it. Give one with words.")

    def log_probability() -> float:
        return float(token_log_probabilities(model, source, target).sum())

    whole = log_probability()
    named = attentions(model)
    effects = {}
    for kind, name in KINDS.items():
        layers = model.encoder if kind == "encoder" else model.decoder
        rows = []
        for layer in range(len(layers)):
            attention = named[name.format(layer)]
            row = []
            for head in range(attention.heads):
                with without_heads(attention, [head]):
                    row.append(log_probability() - whole)
            rows.append(row)
        effects[kind] = np.array(rows, np.float32)
    return HeadEffects(whole, effects["encoder"], effects["decoder"], effects["cross"])


@contextmanager
def without_heads(attention: MultiHeadAttention, heads: Sequence[int]) -> Iterator[None]:
    """Let these heads, counted from 0, contribute nothing: their part of Concat(head_1 … head_h) is 0."""
    width = attention.widths[2] // attention.heads

    def remove(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # noqa: ARG001
        concatenated = inputs[0].unflatten(-1, (attention.heads, width)).clone()
        concatenated[..., list(heads), :] = 0
        return (concatenated.flatten(-2), *inputs[1:])

    handle = attention.output.register_forward_pre_hook(remove)
    try:
        with torch.no_grad():
            yield
    finally:
        handle.remove()
