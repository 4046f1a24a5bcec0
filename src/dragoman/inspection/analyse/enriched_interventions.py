"""Interventions in an enriched model: heads, sub-layers and layers switched off, uniform attention."""

from collections.abc import Sequence

from dragoman.inspection.analyse.changes import (
    HeadOff,
    Intervention,
    LayerOff,
    PositionsOff,
    SublayerOff,
    UniformAttention,
)
from dragoman.inspection.analyse.convolutional_interventions import return_input_and_past
from dragoman.inspection.analyse.interventions import (
    attention_of,
    layer_of,
    make_uniform,
    refuse_missing_sublayer,
    remove_head,
    return_input,
    share_weights,
    switch_positions_off,
    zeros,
)
from dragoman.model.enriched import Enriched
from dragoman.system.errors import DragomanError


def with_enriched_interventions(model: Enriched, interventions: Sequence[Intervention]) -> Enriched:
    """The model with these interventions, on a copy that shares its weights.

    Raises `DragomanError` for a layer, head or sub-layer that the model does not have.
    """
    changed = share_weights(model, {})
    for intervention in interventions:
        match intervention:
            case HeadOff("cross", layer, head):
                remove_head(attention_of(changed, "cross", layer, intervention), head, intervention)
            case UniformAttention("cross", layer, head):
                make_uniform(attention_of(changed, "cross", layer, intervention), head, intervention)
            case SublayerOff(side, layer, "cross_attention" | "feed_forward" as part):
                refuse_missing_sublayer(intervention)
                added = layer_of(changed, side, layer, intervention).get_submodule(f"{part}_residual.dropout")
                added.register_forward_hook(zeros)
            case LayerOff("encoder", layer):
                layer_of(changed, "encoder", layer, intervention).register_forward_hook(return_input)
            case LayerOff("decoder", layer):
                layer_of(changed, "decoder", layer, intervention).register_forward_hook(return_input_and_past)
            case PositionsOff(side):
                switch_positions_off(changed, side)
            case _:
                raise DragomanError(
                    f"{intervention}: this model has no self-attention. What can be changed in it: heads and "
                    "layers of encoder-decoder attention (cross.1.2=off, cross.1=uniform), sub-layers "
                    "(decoder.1.cross_attention=off, encoder.1.feed_forward=off), layers (encoder.1=off) and "
                    "positions=off."
                )
    return changed
