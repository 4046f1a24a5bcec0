"""Interventions in a ConvS2S: a layer or its attention switched off, uniform attention, no positions.

As for a Transformer, hooks act on a copy that shares the weights.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from dragoman.inspection.analyse.changes import (
    Intervention,
    LayerOff,
    PositionsOff,
    SublayerOff,
    UniformAttention,
)
from dragoman.inspection.analyse.interventions import (
    layer_of,
    return_input,
    share_weights,
    switch_positions_off,
    zeros,
)
from dragoman.model.convolutional import Convolutional, ConvolutionalState
from dragoman.system.errors import DragomanError

Inputs = tuple[Tensor, Tensor, ConvolutionalState]


def with_convolutional_interventions(
    model: Convolutional, interventions: Sequence[Intervention]
) -> Convolutional:
    """The model with these interventions, on a copy that shares its weights.

    Raises `DragomanError` for a layer that the model does not have, and for parts of other models.
    """
    changed = share_weights(model, {})
    for intervention in interventions:
        match intervention:
            case LayerOff("encoder", layer):
                layer_of(changed, "encoder", layer, intervention).register_forward_hook(return_input)
            case LayerOff("decoder", layer):
                layer_of(changed, "decoder", layer, intervention).register_forward_hook(return_input_and_past)
            case SublayerOff("decoder", layer, "cross_attention"):
                context = layer_of(changed, "decoder", layer, intervention).get_submodule("attention.output")
                context.register_forward_hook(zeros)
            case UniformAttention("cross", layer, None):
                attention = layer_of(changed, "decoder", layer, intervention).get_submodule("attention")
                attention.register_forward_pre_hook(clear_keys)
            case PositionsOff(side):
                switch_positions_off(changed, side)
            case _:
                raise DragomanError(
                    f"{intervention}: this model is a ConvS2S, which has no such part. What can be changed "
                    "in it: encoder.1=off or decoder.1=off for a layer, decoder.1.cross_attention=off or "
                    "cross.1=uniform for the attention of a layer, and positions=off."
                )
    return changed


# ---- what hooks do


def return_input_and_past(
    module: nn.Module,  # noqa: ARG001
    inputs: tuple[Tensor, ...],
    output: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """A hook that returns a block's input in place of its output."""
    return inputs[0], output[1]


def clear_keys(module: nn.Module, inputs: Inputs) -> Inputs:  # noqa: ARG001
    """A hook that replaces keys by zeros: all scores are 0, and weights are the same."""
    x, embedded, state = inputs
    return x, embedded, replace(state, keys=torch.zeros_like(state.keys))
