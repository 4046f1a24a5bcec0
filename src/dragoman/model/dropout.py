"""Residual dropout (section 5.4; Srivastava et al. 2014): survivors are divided by 1 − P_drop."""

import numpy as np
import torch
from jaxtyping import Float, Int16
from torch import Tensor
from torch.nn import functional as F

from dragoman.model import kernels
from dragoman.model.kernels import Drops, Fusible


class Dropout(Fusible):
    """`torch.nn.Dropout`, on a CPU from 16 random bits an element: PyTorch's own draws there take many times as long.

    They begin with a number of PyTorch's generator, so that its state, saved and restored, gives the same zeros. The probability is
    rounded to a multiple of 1 / 65536, and the scale is that of the rounded one.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.drop = min(round(p * 2**16), 2**16 - 1)

    def draw(self) -> Drops | None:
        """What decides which numbers survive this time; None where all do."""
        if not self.training or self.drop == 0:
            return None
        key = int(torch.empty((), dtype=torch.int64).random_())
        return Drops(key, self.drop - 2**15, 2**16 / (2**16 - self.drop))

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p, self.training)
        drops = self.draw()
        if drops is None:
            return x
        if self.fused and kernels.takes(x):
            return kernels.dropout(x, drops)
        kept = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.ge(random_bits(drops.key, x.shape), drops.least, out=kept)  # no detour by booleans
        return (x * kept).mul_(drops.survivors)


def random_bits(key: int, shape: torch.Size) -> Int16[Tensor, "*N"]:
    """16 bits for each number: SplitMix64 from a key on (Steele, Lea and Flood 2014), of which a kernel can draw any one again."""
    count = shape.numel()
    words = np.arange(-(-count // 4), dtype=np.uint64)
    words *= np.uint64(0x9E3779B97F4A7C15)
    words += np.uint64(key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return torch.from_numpy(words.view(np.int16))[:count].view(shape)
