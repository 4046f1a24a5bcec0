"""Gradient norms by layer, for the log."""

import re

from torch import Tensor, nn

from dragoman.training.world import unsharded

LAYER = re.compile(r"^(\w+(\.\d+)?).*")  # the part of a weight's name before its sub-layer


def gradient_norms_by_layer(model: nn.Module) -> dict[str, Tensor]:
    """The gradient norm of each layer: `encoder.0`, `target_embedding` and so on."""
    layers: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            layers.setdefault(LAYER.sub(r"\1", name), []).append(weight.grad)
    return {name: unsharded(nn.utils.get_total_norm(gradients)) for name, gradients in layers.items()}
