"""Replacement for `LabelSmoothedCrossEntropy`, its oracle, that allocates nothing as large as the logits.

Shapes as in model/loss.py.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.system.device import is_cpu

CPU_ROWS = 128  # a chunk of logits in float32 stays within the processor's cache
GPU_ROWS = 4096  # few launches, and some hundred megabytes


class ChunkedCrossEntropy(LabelSmoothedCrossEntropy):
    """The loss and its gradient chunk by chunk.

    The gradient overwrites the logits; it is differentiable once, by the loss alone.
    """

    def forward(
        self, logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        return _ChunkedCrossEntropy.apply(logits, gold, self.smoothing)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        spread = smoothing / logits.size(1)
        loss = logits.new_zeros((), dtype=torch.float64)
        nll = torch.zeros_like(loss)
        size = CPU_ROWS if is_cpu(logits.device) else GPU_ROWS
        for rows, ids in zip(logits[: len(gold)].split(size), gold.split(size), strict=True):
            exact = rows.to(torch.promote_types(rows.dtype, torch.float32))
            p = exact.softmax(-1)
            # Of e^logits: exponentials are computed once.
            log_sum = exact.amax(-1, keepdim=True) - p.amax(-1, keepdim=True).log()
            gold_nll = (log_sum - exact.gather(1, ids[:, None])).sum()
            nll += gold_nll
            loss += (1 - smoothing) * gold_nll - spread * (exact.sum() - logits.size(1) * log_sum.sum())
            gradient = p.sub_(spread)
            gradient.scatter_add_(1, ids[:, None], gradient.new_full((len(ids), 1), smoothing - 1))
            rows.copy_(gradient)
        logits[len(gold) :].zero_()
        ctx.save_for_backward(logits.detach())
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(loss_gradient.to(gradient.dtype)), None, None
