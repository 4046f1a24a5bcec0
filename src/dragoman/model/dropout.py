"""Residual dropout (section 5.4; Srivastava et al. 2014): survivors are divided by 1 − P_drop."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """`torch.nn.Dropout`, on a CPU from 16 random bits an element: PyTorch's own draws there take many times as long.

    The bits are SFC64's, begun with a number of PyTorch's generator, so that its state, saved and restored, gives the same zeros. The
    probability is rounded to a multiple of 1 / 65536, and the scale is that of the rounded one.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.drop = round(p * 2**16)

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
        if not self.training or self.drop == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        words = np.random.SFC64(int(torch.empty((), dtype=torch.int64).random_())).random_raw(-(-x.numel() // 4))
        bits = torch.from_numpy(words.view(np.int16))[: x.numel()].view(x.shape)
        kept = torch.ge(bits, self.drop - 2**15, out=torch.empty_like(x, memory_format=torch.contiguous_format))  # no detour by booleans
        return x * kept.mul_(2**16 / (2**16 - self.drop))
