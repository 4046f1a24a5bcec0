"""Label-smoothed cross-entropy (section 5.4), as sums: only the training loop divides. Shapes: N tokens of M rows, V vocabulary."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model import kernels

CPU_ROWS = 128  # a chunk of logits in float32 then stays within the processor's cache
GPU_ROWS = 4096  # few launches, and some hundred megabytes


def perplexity(nll: float) -> float:
    """E to the negative log-likelihood a token; for 700 nats and more, which a float cannot hold, e to 700."""
    return math.exp(min(nll, 700.0))


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradient chunk by chunk; the gradient takes the place of the logits, so nothing of size M × V is made."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        spread = smoothing / logits.size(1)
        loss = logits.new_zeros((), dtype=torch.float64)
        nll = torch.zeros_like(loss)
        size = CPU_ROWS if logits.device.type == "cpu" else GPU_ROWS
        for rows, ids in zip(logits[: len(gold)].split(size), gold.split(size), strict=True):
            exact = rows.to(torch.promote_types(rows.dtype, torch.float32))
            p = exact.softmax(-1)
            log_sum = exact.amax(-1, keepdim=True) - p.amax(-1, keepdim=True).log()  # of e^logits: exponentials are computed once
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


def cross_entropy(
    logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"], smoothing: float = 0.0, fused: bool = False
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The smoothed loss and the plain negative log-likelihood, in nats, each summed over N tokens: those of the first rows, before padding.

    The target distribution gives 1 − ε to the gold token and spreads ε evenly over all V (Szegedy et al. 2015). The logits are
    used up: they hold their own gradient in the end. Differentiable once, through the first value. `fused` has the kernels compute it.
    """
    if fused and kernels.takes(logits):
        return kernels.cross_entropy(logits, gold, smoothing)
    return _CrossEntropy.apply(logits, gold, smoothing)
