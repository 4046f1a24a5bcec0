"""Replacement for `torch.nn.Dropout` on a CPU; the oracle of its masks is `random_bits`.

Survivors are divided by 1 − P_drop.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int16
from torch import Tensor, nn

from dragoman.system.random import splitmix64


class DropoutMask(NamedTuple):
    """A mask that can be computed again.

    Elements whose random bits are below `threshold` are dropped, the others are scaled.
    """

    key: int
    """Where the sequence of random bits begins."""
    threshold: int
    scale: float


def threshold_and_scale(p: float) -> tuple[int, float] | None:
    """Of a mask that drops with probability p, rounded to a multiple of 1 / 65536 below 1; None for 0."""
    dropped = min(round(p * 2**16), 2**16 - 1)
    return None if dropped == 0 else (dropped - 2**15, 2**16 / (2**16 - dropped))


class CounterDropout(nn.Dropout):
    """`torch.nn.Dropout` from 16 random bits an element.

    PyTorch's own generator takes many times as long on a CPU.

    The key of a mask comes from PyTorch's generator, so that a restored generator gives the same masks.
    P_drop is rounded to a multiple of 1 / 65536, and the scale is that of the rounded one.
    """

    def draw(self) -> DropoutMask | None:
        """The next mask; None where nothing is dropped."""
        if not self.training or (rounded := threshold_and_scale(self.p)) is None:
            return None
        return DropoutMask(int(torch.empty((), dtype=torch.int64).random_()), *rounded)

    def forward(self, input: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:  # noqa: A002  PyTorch's name
        """Each element is 0 with probability p, or divided by 1 − p; in evaluation nothing changes."""
        mask = self.draw()
        if mask is None:
            return input
        keep = torch.empty_like(input, memory_format=torch.contiguous_format)
        torch.ge(random_bits(mask.key, input.shape), mask.threshold, out=keep)
        return (input * keep).mul_(mask.scale)


def random_bits(key: int, shape: torch.Size) -> Int16[Tensor, "*N"]:
    """16 random bits for each element.

    Four elements share a number of SplitMix64: a kernel can compute the bits of any element again.
    """
    count = shape.numel()
    words = splitmix64(torch.tensor(key), torch.arange(-(-count // 4)))
    return words.view(torch.int16)[:count].view(shape)
