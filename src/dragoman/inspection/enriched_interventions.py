"""Interventions in an enriched model: heads, sub-layers and layers switched off, uniform attention."""

from collections.abc import Sequence

from torch import nn

from dragoman.inspection.changes import (
    HeadOff,
    Intervention,
    LayerOff,
    PositionsOff,
    SublayerOff,
    UniformAttention,
)
from dragoman.inspection.convolutional_interventions import return_input_and_past
from dragoman.inspection.interventions import (
    make_uniform,
    numbered_layer,
    refuse_head,
    refuse_sublayer,
    remove_head,
    return_input,
    share_weights,
    switch_positions_off,
    zeros,
)
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.enriched import Enriched
from dragoman.system.errors import DragomanError


def with_enriched_interventions(model: Enriched, interventions: Sequence[Intervention]) -> Enriched:
    """The model with these interventions, on a copy that shares its weights.

    Raises `DragomanError` for a layer, head or sub-layer that the model does not have.
    """
    changed = share_weights(model, {})
    for asked in interventions:
        match asked:
            case HeadOff("cross", layer, head):
                attention = attention_of(changed, layer, asked)
                refuse_head(attention, head, asked)
                remove_head(attention, head - 1)
            case UniformAttention("cross", layer, head):
                attention = attention_of(changed, layer, asked)
                if head is not None:
                    refuse_head(attention, head, asked)
                make_uniform(attention, range(attention.heads) if head is None else [head - 1])
            case SublayerOff(side, layer, "cross_attention" | "feed_forward" as part):
                refuse_sublayer(asked)
                of_side = changed.encoder if side == "encoder" else changed.decoder
                added = numbered_layer(of_side, side, layer, asked).get_submodule(f"{part}_residual.dropout")
                added.register_forward_hook(zeros)
            case LayerOff("encoder", layer):
                numbered_layer(changed.encoder, "encoder", layer, asked).register_forward_hook(return_input)
            case LayerOff("decoder", layer):
                off = numbered_layer(changed.decoder, "decoder", layer, asked)
                off.register_forward_hook(return_input_and_past)
            case PositionsOff(side):
                switch_positions_off(changed, side)
            case _:
                raise DragomanError(
                    f"{asked}: this model has no self-attention. What can be changed in it: heads and layers "
                    "of encoder-decoder attention (cross.1.2=off, cross.1=uniform), sub-layers "
                    "(decoder.1.cross_attention=off, encoder.1.feed_forward=off), layers (encoder.1=off) and "
                    "positions=off."
                )
    return changed


def attention_of(model: Enriched, layer: int, asked: Intervention) -> MultiHeadAttention:
    """The encoder-decoder attention of a layer, counted from 1. Raises `DragomanError` if there is none."""
    found: nn.Module = numbered_layer(model.decoder, "decoder", layer, asked)
    attention = found.get_submodule("cross_attention")
    assert isinstance(attention, MultiHeadAttention)
    return attention
