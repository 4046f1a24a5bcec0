"""Interventions: a model with parts of its computation switched off, or with uniform attention.

The original is not touched: its modules are copied, the copy shares their weights, and hooks act on the copy.
Other threads can use the original at the same time.

Shapes: B sentences, H heads, T queries, N keys, K = d_k, D = d_model.
"""

import copy
from collections.abc import Sequence
from typing import Literal, TypeVar, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.inspection.analyse.changes import (
    HeadOff,
    Intervention,
    LayerOff,
    PositionsOff,
    Side,
    SublayerOff,
    UniformAttention,
)
from dragoman.inspection.record.kinds import Kind
from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.transformer import FeedForward, Transformer
from dragoman.system.errors import DragomanError

M = TypeVar("M", bound=nn.Module)


def with_interventions(model: Transformer, interventions: Sequence[Intervention]) -> Transformer:
    """The model with these interventions, on a copy that shares its weights.

    Raises `DragomanError` for a layer, head or sub-layer that the model does not have.
    """
    changed = share_weights(model, {})
    for intervention in interventions:
        match intervention:
            case HeadOff(use, layer, head):
                remove_head(attention_of(changed, use, layer, intervention), head, intervention)
            case UniformAttention(use, layer, head):
                make_uniform(attention_of(changed, use, layer, intervention), head, intervention)
            case SublayerOff(side, layer, name):
                refuse_missing_sublayer(intervention)
                sublayer = getattr(layer_of(changed, side, layer, intervention), name)
                assert isinstance(sublayer, MultiHeadAttention | FeedForward)
                # Hooks run in `forward`, which attention has not: its last step, W^O, gives zeros.
                last = sublayer.output if isinstance(sublayer, MultiHeadAttention) else sublayer
                last.register_forward_hook(zeros)
            case LayerOff(side, layer):
                layer_of(changed, side, layer, intervention).register_forward_hook(return_input)
            case PositionsOff(side):
                switch_positions_off(changed, side)
    return changed


def share_weights(module: M, copies: dict[int, nn.Module]) -> M:
    """A copy of a module and of its parts, without their hooks, whose tensors are those of the original.

    What another thread has set in the original to record attention is left out too. `copies` has the modules
    that are copied already, by the id of the original: embeddings may be tied.
    """
    if id(module) not in copies:
        twin = copies[id(module)] = copy.copy(module)
        attributes = vars(twin)
        attributes.update({name: value for name, value in vars(nn.Module()).items() if "hook" in name})
        attributes.pop("attend", None)  # that of `replaced_attend`, which hides the method
        if "attention_weights_hook" in attributes:
            attributes["attention_weights_hook"] = None
        twin._modules = {
            name: None if child is None else share_weights(child, copies)
            for name, child in module._modules.items()
        }
    return cast(M, copies[id(module)])


def layer_of(model: nn.Module, side: Side, layer: int, intervention: Intervention) -> nn.Module:
    """The layer of this number, counted from 1, of the encoder or the decoder.

    Raises `DragomanError`, which names the intervention, if there is none.
    """
    layers: nn.ModuleList = getattr(model, side)
    if not 1 <= layer <= len(layers):
        raise DragomanError(
            f"{intervention}: there is no layer {layer}; this model has {len(layers)} {side} layers."
        )
    return layers[layer - 1]


def attention_of(model: nn.Module, use: Kind, layer: int, intervention: Intervention) -> MultiHeadAttention:
    """The attention of this kind in a layer, counted from 1. Raises as `layer_of`."""
    chosen_layer = layer_of(model, "decoder" if use == "cross" else use, layer, intervention)
    attention = chosen_layer.get_submodule("cross_attention" if use == "cross" else "self_attention")
    assert isinstance(attention, MultiHeadAttention)
    return attention


def refuse_missing_head(attention: MultiHeadAttention, head: int, intervention: Intervention) -> None:
    """Raise `DragomanError` if attention has no head of this number, counted from 1."""
    if not 1 <= head <= attention.heads:
        raise DragomanError(
            f"{intervention}: there is no head {head}; this model has {attention.heads} in a layer."
        )


def refuse_missing_sublayer(intervention: SublayerOff) -> None:
    """Raise `DragomanError` for encoder-decoder attention in an encoder layer."""
    if (intervention.side, intervention.sublayer) == ("encoder", "cross_attention"):
        raise DragomanError(
            f"{intervention}: an encoder layer has no cross_attention; decoder layers have it."
        )


# ---- hooks, and another `attend`


def remove_head(attention: MultiHeadAttention, head: int, intervention: Intervention) -> None:
    """Let a head contribute zeros to Concat(head_1 … head_h). Raises as `refuse_missing_head`."""
    refuse_missing_head(attention, head, intervention)
    width = attention.widths[2] // attention.heads  # d_v

    def remove(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # noqa: ARG001
        concatenated = inputs[0].clone()  # [B, T, heads · d_v]
        concatenated[..., (head - 1) * width : head * width] = 0
        return (concatenated, *inputs[1:])

    attention.output.register_forward_pre_hook(remove)


def switch_positions_off(model: nn.Module, side: Literal["source", "target"] | None) -> None:
    """Let no positions be added to the embeddings of a side; None is both sides."""
    for name in ("source", "target") if side is None else (side,):
        model.get_submodule(f"{name}_positions").register_forward_hook(zeros)


def zeros(module: nn.Module, inputs: object, output: Tensor) -> Tensor:  # noqa: ARG001
    """A hook that gives zeros in place of a module's output."""
    return torch.zeros_like(output)


def return_input(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:  # noqa: ARG001
    """A hook that returns a module's input in place of its output."""
    return inputs[0]


def make_uniform(attention: MultiHeadAttention, head: int | None, intervention: Intervention) -> None:
    """Let a head, or all, attend uniformly: with queries and keys of zeros, all scores are equal.

    Zeros in the queries alone would do for dot products, but not for additive attention. Raises as
    `refuse_missing_head`.
    """
    if head is not None:
        refuse_missing_head(attention, head, intervention)
    attend = attention.attend
    chosen = slice(None) if head is None else head - 1

    def attend_uniformly(
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        query, keys = query.clone(), memory.keys.clone()
        query[:, chosen], keys[:, chosen] = 0, 0
        return attend(query, KeysValues(keys, memory.values), mask, causal)

    vars(attention)["attend"] = attend_uniformly  # an attribute, which hides the method
