"""Attention weights of a model (equation 1).

Shapes: B sentences, S source and T target tokens, H heads, L layers, Q queries, N keys.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import RLock, get_ident

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.convolutional import MultiStepAttention
from dragoman.model.enriched import EnrichedDecoderLayer
from dragoman.model.interface import Model, State
from dragoman.model.recurrent import RecurrentAttention
from dragoman.model.symbols import END, PAD
from dragoman.model.transformer import DecoderLayer, EncoderLayer
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch

LAYER_KINDS = DecoderLayer | EnrichedDecoderLayer
AttentionModule = MultiHeadAttention | RecurrentAttention | MultiStepAttention

RECORDING = RLock()  # a module has one hook


def cross_attention_modules(model: Model) -> list[AttentionModule]:
    """The encoder-decoder attention of each decoder layer, in order.

    Raises `DragomanError` for a model without attention.
    """
    layers = decoder_layers(model)
    if not layers:
        raise DragomanError(
            "Attention weights need a model with encoder-decoder attention, and this architecture has none."
        )
    return [layer.cross_attention if isinstance(layer, LAYER_KINDS) else layer for layer in layers]


def decoder_layers(model: Model) -> list[DecoderLayer | EnrichedDecoderLayer | AttentionModule]:
    """The modules that attend to the source, or the layers that have them, in order."""
    kinds = LAYER_KINDS | RecurrentAttention | MultiStepAttention
    return [module for module in model.modules() if isinstance(module, kinds)]


def has_cross_attention(model: Model) -> bool:
    """Whether a model attends to the source."""
    return bool(decoder_layers(model.members[0]))


@contextmanager
def alignment_weights(model: Model) -> Iterator[Callable[[], Float[Tensor, "R S"]]]:
    """The weights that alignments are read from, after a call of `model.decode` for R hypotheses.

    They are those of the last layer: of its alignment head, or the mean of all heads. For an ensemble they
    are those of its first model.
    """
    first = model.members[0]
    head = first.settings.alignment_head
    with record_attention(cross_attention_modules(first)[-1:]) as (calls,):

        def weights() -> Tensor:
            (heads,) = calls  # [1, H, R, S]
            return heads.mean(1)[0] if head is None else heads[0, head - 1]

        yield weights


@contextmanager
def record_attention(modules: Sequence[AttentionModule]) -> Iterator[list[list[Tensor]]]:
    """For each module, the weights of its calls in this thread while the context is open, in order.

    Raises `DragomanError` if this thread records already.
    """
    recorded: list[list[Tensor]] = [[] for _ in modules]
    with RECORDING:
        if any(module.attention_weights_hook is not None for module in modules):
            raise DragomanError(
                "This thread records the attention of this model already; end that before a call that needs "
                "the weights itself, such as align, attention, or translate with keep_tags."
            )
        for module, calls in zip(modules, recorded, strict=True):
            module.attention_weights_hook = partial(record, get_ident(), calls)
        try:
            yield recorded
        finally:
            for module in modules:
                module.attention_weights_hook = None


def record(thread: int, calls: list[Tensor], weights: Tensor) -> None:
    """Keep the weights of a call, if it is of this thread."""
    if get_ident() == thread:
        calls.append(weights)


def decode_with_attention(
    model: Model, tokens: Int[Tensor, "R 1"], state: State
) -> tuple[Float[Tensor, "R 1 D"], State, Float[Tensor, "B W S"]]:
    """As `model.decode`, and each hypothesis's attention to the source: the mean of all layers and heads."""
    with record_attention(cross_attention_modules(model)) as recorded:
        features, state = model.decode(tokens, state)
    return features, state, torch.stack([weights.mean(1) for (weights,) in recorded]).mean(0)


def initial_coverage(model: Model, source: Int[Tensor, "B S"]) -> Float[Tensor, "B S"]:
    """1 for tokens that need no attention: padding, and END if no model attends to it; 0 for the others."""
    if any(member.settings.source_end for member in model.members):
        return (source == PAD).float()
    return ((source == PAD) | (source == END)).float()


@torch.no_grad()
def cross_attention(
    model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> Float[Tensor, "L B H T S"]:
    """The weights of encoder-decoder attention in every layer and head.

    Query t predicts target token t.

    Source and target end with END. An LSTM or GRU has one layer and one head, ConvS2S one head per layer. For
    an ensemble they are the weights of its first model. Raises `DragomanError` for a model without attention.
    """
    model = model.members[0]
    return forced_decoding_weights(model, cross_attention_modules(model), source, target)


def alignment_head(model: Model) -> int | None:
    """The head of the last layer that a model's alignments are read from; None is the mean of all.

    For an ensemble, the head of its first model.
    """
    return model.members[0].settings.alignment_head


def forced_decoding_weights(
    model: Model, modules: Sequence[AttentionModule], source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> Float[Tensor, "L B H Q N"]:
    """The weights of these modules while the model reads a source and predicts a given target."""
    with record_attention(modules) as recorded:
        model.decode(Batch.of(source, target, []).target_in, model.encode(source))
    return torch.stack([torch.cat(calls, 2) for calls in recorded])


@torch.no_grad()
def all_attention(
    model: Model, source: Int[Tensor, "B S"], target: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "L B H S S"], Float[Tensor, "M B H T T"], Float[Tensor, "N B H T S"]]:
    """The weights of encoder self-attention, decoder self-attention and encoder-decoder attention.

    A baseline has no layers of the first two kinds. Inputs and errors as `cross_attention`.
    """
    model, self_attention = model.members[0], list[Tensor]()
    cross = cross_attention(model, source, target)
    for kind, tokens in ((EncoderLayer, source), (DecoderLayer, target)):
        layers = [layer for layer in model.modules() if isinstance(layer, kind)]
        modules = [
            each.self_attention for each in layers if isinstance(each.self_attention, MultiHeadAttention)
        ]
        empty = cross.new_zeros(0, *cross.shape[1:3], *[tokens.size(1)] * 2)
        self_attention.append(forced_decoding_weights(model, modules, source, target) if modules else empty)
    return self_attention[0], self_attention[1], cross
