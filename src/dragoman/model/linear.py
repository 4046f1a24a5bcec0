"""Linear maps, and their weights laid out once for translation on a CPU. Shapes: D features in, E features out."""

from abc import ABC, abstractmethod
from functools import cache, cached_property

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.settings import Precision


class Linear(nn.Linear):
    """y = x Wᵀ + b."""

    def part(self, x: Float[Tensor, "*N D"], first: int, last: int | None) -> Float[Tensor, "*N E"]:
        """The features `first` to `last` of y, without computing the others."""
        return F.linear(x, self.weight[first:last], None if self.bias is None else self.bias[first:last])


def onednn(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none") -> Tensor:
    """activation(x Wᵀ + b) [N, E] of x [N, D] and W [E, D], in one product; `activation` is "none" or "relu".

    W may be in oneDNN's order. Raises `RuntimeError` for a precision that this processor does not multiply (see `can_pack`).
    """
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "")


class Packed(Linear, ABC):
    """The same map for translation alone: the weights are laid out, in a copy, when they are first used."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        nn.Module.__init__(self)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(weight)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias))
        self.requires_grad_(requires_grad=False)
        self._parts: dict[tuple[int, int | None], Packed] = {}

    @abstractmethod
    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """X Wᵀ + b."""

    def part(self, x: Float[Tensor, "*N D"], first: int, last: int | None) -> Float[Tensor, "*N E"]:
        if (first, last) not in self._parts:
            self._parts[first, last] = type(self)(self.weight[first:last], None if self.bias is None else self.bias[first:last])
        return self._parts[first, last](x)


class PackedFloat32(Packed):
    """By oneDNN, which on some processors multiplies twice as fast as the library that PyTorch takes by itself."""

    @cached_property
    def packed(self) -> Tensor:
        """The weights in oneDNN's order."""
        return torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        return onednn(x, self.packed, self.bias)


class PackedBFloat16(Packed):
    """Numbers of 8 significant bits, multiplied by oneDNN and added up in float32."""

    @cached_property
    def packed(self) -> tuple[Tensor, Tensor | None]:
        """The weights in oneDNN's order, and the bias."""
        rounded = torch.ops.mkldnn._reorder_linear_weight(self.weight.bfloat16())
        return rounded, None if self.bias is None else self.bias.bfloat16()

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        return onednn(x.bfloat16(), *self.packed).float()


class PackedInt8(Packed):
    """Integers of 8 bits, with a scale for each row of W and, found on the way, one for each row of x.

    Their sums are exact integers, so that a row of y depends on its row of x alone, whatever else is in the batch.
    """

    @cached_property
    def packed(self) -> tuple[Int8[Tensor, "D E"], Float[Tensor, "E"]]:
        """The integers, and the scale of each row of W."""
        whole, scale = integers(self.weight.float())
        return whole.t().contiguous(), scale[:, 0]

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        weight, scale = self.packed
        whole, own = integers(x.flatten(0, -2))
        y = torch._int_mm(whole, weight).float().mul_(own)
        y = y.mul_(scale) if self.bias is None else torch.addcmul(self.bias, y, scale)
        return y.view(*x.shape[:-1], -1)


def integers(x: Float[Tensor, "N D"]) -> tuple[Int8[Tensor, "N D"], Float[Tensor, "N 1"]]:
    """Integers from -127 to 127, and the scale of each row, whose product is x up to half a scale."""
    scale = x.abs().amax(-1, keepdim=True).clamp_(min=1e-30).div_(127)
    return (x / scale).round_().to(torch.int8), scale


@cache
def can_pack(precision: Precision) -> bool:
    """Whether PyTorch has kernels for it on this processor."""
    if precision == "int8":
        return True
    if not torch.backends.mkldnn.is_available():  # not every PyTorch has oneDNN
        return False
    try:
        KINDS[precision](torch.zeros(1, 1), None)(torch.zeros(1, 1))
    except RuntimeError:
        return False
    return True


KINDS: dict[Precision, type[Packed]] = {"float32": PackedFloat32, "bfloat16": PackedBFloat16, "int8": PackedInt8}


def pack(model: nn.Module, precision: Precision) -> None:
    """Put a packed map in the place of every linear one. The model can translate with it, but no longer train."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, KINDS[precision](child.weight, child.bias))
