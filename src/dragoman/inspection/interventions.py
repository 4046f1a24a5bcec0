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

from dragoman.inspection.changes import (
    HeadOff,
    Intervention,
    LayerOff,
    PositionsOff,
    Side,
    SublayerOff,
    UniformAttention,
    Use,
)
from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.transformer import DecoderLayer, EncoderLayer, FeedForward, Transformer
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
                attention = attention_of(changed, use, layer, intervention)
                refuse_head(attention, head, intervention)
                remove_head(attention, head - 1)
            case UniformAttention(use, layer, head):
                attention = attention_of(changed, use, layer, intervention)
                if head is not None:
                    refuse_head(attention, head, intervention)
                make_uniform(attention, range(attention.heads) if head is None else [head - 1])
            case SublayerOff(side, layer, name):
                refuse_sublayer(intervention)
                sublayer = getattr(layer_of(changed, side, layer, intervention), name)
                assert isinstance(sublayer, MultiHeadAttention | FeedForward)
                last = sublayer.output if isinstance(sublayer, MultiHeadAttention) else sublayer
                last.register_forward_hook(zeros)
            case LayerOff(side, layer):
                layer_of(changed, side, layer, intervention).register_forward_hook(return_input)
            case PositionsOff(side):
                switch_positions_off(changed, side)
    return changed


def share_weights(module: M, copies: dict[int, nn.Module]) -> M:
    """A copy of a module and of its parts, without their hooks, whose tensors are those of the original.

    What another thread records in the original meanwhile is left out too. `copies` has the modules that are
    copied already, by the id of the original: embeddings may be tied.
    """
    if id(module) not in copies:
        twin = copies[id(module)] = copy.copy(module)
        vars(twin).update({name: value for name, value in vars(nn.Module()).items() if "hook" in name})
        vars(twin).pop("attend", None)
        vars(twin).update({name: None for name in vars(twin) if name == "attention_weights_hook"})
        twin._modules = {
            name: child and share_weights(child, copies) for name, child in module._modules.items()
        }
    return cast(M, copies[id(module)])


def layer_of(model: Transformer, side: Side, layer: int, asked: Intervention) -> EncoderLayer | DecoderLayer:
    """The layer of this number, counted from 1. Raises `DragomanError` if there is none."""
    layers = model.encoder if side == "encoder" else model.decoder
    return cast(EncoderLayer | DecoderLayer, numbered_layer(layers, side, layer, asked))


def numbered_layer(layers: nn.ModuleList, side: Side, layer: int, asked: Intervention) -> nn.Module:
    """The layer of this number, counted from 1, of a side. Raises `DragomanError` if there is none."""
    if not 1 <= layer <= len(layers):
        raise DragomanError(
            f"{asked}: there is no layer {layer}; this model has {len(layers)} {side} layers."
        )
    return layers[layer - 1]


def attention_of(model: Transformer, use: Use, layer: int, asked: Intervention) -> MultiHeadAttention:
    """The attention of a layer. Raises `DragomanError` if there is no such layer."""
    if use == "cross":
        return cast(DecoderLayer, layer_of(model, "decoder", layer, asked)).cross_attention
    return layer_of(model, use, layer, asked).self_attention


def refuse_head(attention: MultiHeadAttention, head: int, asked: Intervention) -> None:
    """Raise `DragomanError` if attention has no head of this number, counted from 1."""
    if not 1 <= head <= attention.heads:
        raise DragomanError(f"{asked}: there is no head {head}; this model has {attention.heads} in a layer.")


def refuse_sublayer(asked: SublayerOff) -> None:
    """Raise `DragomanError` for encoder-decoder attention in an encoder layer."""
    if (asked.side, asked.sublayer) == ("encoder", "cross_attention"):
        raise DragomanError(f"{asked}: an encoder layer has no cross_attention; decoder layers have it.")


# ---- what hooks do


def remove_head(attention: MultiHeadAttention, head: int) -> None:
    """Let a head, counted from 0, contribute nothing to the input of W^O."""
    width = attention.widths[2] // attention.heads

    def remove(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # noqa: ARG001
        concatenated = inputs[0].clone()
        concatenated[..., head * width : (head + 1) * width] = 0
        return (concatenated, *inputs[1:])

    attention.output.register_forward_pre_hook(remove)


def switch_positions_off(model: nn.Module, side: Literal["source", "target"] | None) -> None:
    """Let no positions be added to the embeddings of a side; None is both sides."""
    for each in ("source", "target") if side is None else (side,):
        model.get_submodule(f"{each}_positions").register_forward_hook(zeros)


def zeros(module: nn.Module, inputs: object, output: Tensor) -> Tensor:  # noqa: ARG001
    """A hook that gives zeros in place of a module's output."""
    return torch.zeros_like(output)


def return_input(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:  # noqa: ARG001
    """A hook that returns a module's input in place of its output."""
    return inputs[0]


def make_uniform(attention: MultiHeadAttention, heads: Sequence[int]) -> None:
    """Let these heads, counted from 0, attend uniformly: keys and a query of zeros have the same scores."""
    attend, chosen = attention.attend, list(heads)

    def attend_uniformly(
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        query, keys = query.clone(), memory.keys.clone()
        query[:, chosen], keys[:, chosen] = 0, 0
        return attend(query, KeysValues(keys, memory.values), mask, causal)

    vars(attention)["attend"] = attend_uniformly
