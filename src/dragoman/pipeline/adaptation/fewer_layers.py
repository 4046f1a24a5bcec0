"""An adaptation whose model has fewer layers than its initial model (Shleifer and Rush 2020: shrink and
fine-tune).

Does not import torch.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from dragoman.model.settings import ModelSettings

Weight = TypeVar("Weight")
LAYER_NAME = re.compile(r"(encoder|decoder)\.(\d+)\.(.+)")
LAYERS = ("encoder_layers", "decoder_layers")


def can_leave_out_layers(initial: ModelSettings) -> bool:
    """Whether a layer's weights do not depend on its number.

    PyTorch keeps the layers of an LSTM or GRU in one module, and the number of a dilated convolution is that
    of its distance.
    """
    return initial.architecture not in ("lstm", "gru") and not initial.dilated


def with_guided_head(
    model: ModelSettings, initial: ModelSettings, alignment_head: int | None = None
) -> ModelSettings:
    """The model without the initial model's `alignment_head`, if the last decoder layer is left out.

    That head belongs to the last layer. Another one may be given.
    """
    keeps_last = model.decoder_layers > 1 or model.decoder_layers == initial.decoder_layers
    return model if keeps_last else replace(model, alignment_head=alignment_head)


def spread(count: int, depth: int) -> list[int]:
    """The numbers of `count` layers out of `depth`, from 0: the first one, and others as far apart as
    possible.
    """
    return [number * (depth - 1) // max(1, count - 1) for number in range(count)]


def kept_layers(initial: ModelSettings, model: ModelSettings) -> dict[str, list[int]]:
    """The layers of an initial model that a model keeps, from 0, for each side that keeps fewer of them."""
    depths = {name: (getattr(model, name), getattr(initial, name)) for name in LAYERS}
    return {
        name.removesuffix("_layers"): spread(count, depth)
        for name, (count, depth) in depths.items()
        if count < depth
    }


def weights_of_layers(
    weights: Mapping[str, Weight], initial: ModelSettings, model: ModelSettings
) -> dict[str, Weight]:
    """The weights of an initial model without the layers that a model leaves out, by the model's names."""
    numbers, result = kept_layers(initial, model), {}
    for name, weight in weights.items():
        layer = LAYER_NAME.fullmatch(name)
        if layer is None or layer[1] not in numbers:
            result[name] = weight
        elif (old := int(layer[2])) in numbers[layer[1]]:
            result[f"{layer[1]}.{numbers[layer[1]].index(old)}.{layer[3]}"] = weight
    return result


def describe_layers(initial: ModelSettings, model: ModelSettings) -> list[str]:
    """A sentence for each side that keeps fewer layers."""
    return [
        f"Layer{'s' * (len(numbers) > 1)} {', '.join(str(old + 1) for old in numbers)} of the "
        f"{getattr(initial, f'{side}_layers')} {side} layers {'are' if len(numbers) > 1 else 'is'} kept."
        for side, numbers in kept_layers(initial, model).items()
    ]
