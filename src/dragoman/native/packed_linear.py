"""Linear maps whose weights are packed once, for translation with PyTorch on a CPU.

Shapes: D features in, E features out.

The oracle of each is `torch.nn.Linear`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, cached_property
from typing import cast

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention, Projections
from dragoman.model.interface import Model
from dragoman.model.settings import Precision
from dragoman.model.transformer import Transformer
from dragoman.native.short_attention import ShortAttention


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none") -> Tensor:
    """activation(x Wᵀ + b) [N, E] of x [N, D] and W [E, D], by oneDNN; `activation` is "none" or "relu".

    W may be in oneDNN's order. Raises `RuntimeError` for a precision that this processor does not support
    (see `can_pack`).
    """
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "")


class PackedLinear(Projections, ABC):
    """The same map for inference alone. A packed copy of the weights is made at the first use."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(weight)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias))
        self.requires_grad_(requires_grad=False)
        self._parts: dict[tuple[int, int | None], PackedLinear] = {}

    @abstractmethod
    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """Compute x Wᵀ + b."""

    def project_rows(self, x: Float[Tensor, "*N D"], start: int, stop: int | None) -> Float[Tensor, "*N E"]:
        if (start, stop) not in self._parts:
            self._parts[start, stop] = type(self)(
                self.weight[start:stop], None if self.bias is None else self.bias[start:stop]
            )
        return self._parts[start, stop](x)


class PackedFloat32(PackedLinear):
    """Float32 by oneDNN, which on some processors is twice as fast as PyTorch's default library."""

    @cached_property
    def packed(self) -> Tensor:
        """The weights in oneDNN's order."""
        return torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """The product x Wᵀ + b, by oneDNN."""
        return onednn_linear(x, self.packed, self.bias)


class PackedBFloat16(PackedLinear):
    """Products of bfloat16, added up in float32."""

    @cached_property
    def packed(self) -> tuple[Tensor, Tensor | None]:
        """The weights in oneDNN's order, and the bias."""
        rounded = torch.ops.mkldnn._reorder_linear_weight(self.weight.bfloat16())
        return rounded, None if self.bias is None else self.bias.bfloat16()

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """The product x Wᵀ + b of bfloat16 factors, rounded to bfloat16, as float32."""
        return onednn_linear(x.bfloat16(), *self.packed).float()


class PackedInt8(PackedLinear):
    """Integers of 8 bits, with a scale for each row of W and, computed on the fly, for each row of x.

    Their sums are exact integers: a row of y depends on its row of x alone, whatever else is in the batch.
    """

    @cached_property
    def packed(self) -> tuple[Int8[Tensor, "D E"], Float[Tensor, "E"]]:
        """The quantised weights, and the scale of each row of W."""
        quantised, scale = quantise_rows(self.weight.float())
        return quantised.t().contiguous(), scale[:, 0]

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """The product x Wᵀ + b of factors of 8 bits, in float32; each row of x has a scale of its own."""
        weight, scale = self.packed
        quantised, row_scale = quantise_rows(x.flatten(0, -2))
        y = torch._int_mm(quantised, weight).float().mul_(row_scale)
        y = y.mul_(scale) if self.bias is None else torch.addcmul(self.bias, y, scale)
        return y.view(*x.shape[:-1], -1)


def quantise_rows(x: Float[Tensor, "N D"]) -> tuple[Int8[Tensor, "N D"], Float[Tensor, "N 1"]]:
    """Integers from -127 to 127 and the scale of each row; their product is x up to half a scale."""
    scale = x.abs().amax(-1, keepdim=True).clamp_(min=1e-30).div_(127)
    return (x / scale).round_().to(torch.int8), scale


@cache
def can_pack(precision: Precision) -> bool:
    """Whether PyTorch has kernels for this precision on this processor."""
    if precision == "int8":
        return True
    if not torch.backends.mkldnn.is_available():  # not every PyTorch has oneDNN
        return False
    try:
        PACKED[precision](torch.zeros(1, 1), None)(torch.zeros(1, 1))
    except RuntimeError:
        return False
    return True


PACKED: dict[Precision, type[PackedLinear]] = {
    "float32": PackedFloat32,
    "bfloat16": PackedBFloat16,
    "int8": PackedInt8,
}


class PackedTransformer(Transformer):
    """A Transformer whose logits are computed by a packed map, too."""

    packed_logits: Callable[[Tensor], Tensor]

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return self.packed_logits(features)


def pack(model: Model, precision: Precision) -> None:
    """Replace every linear map by a packed one, and attention by `ShortAttention`.

    The model can still be saved, but no longer trained.
    """
    for module in list(model.modules()):
        if type(module) is MultiHeadAttention:
            module.__class__ = ShortAttention
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, PACKED[precision](child.weight, child.bias))
    if type(model) is Transformer:
        model.__class__ = PackedTransformer
        logits = PACKED[precision](model.output.weight, model.output_bias)
        # Not a submodule: its weights have names already.
        cast(PackedTransformer, model).packed_logits = logits.forward
