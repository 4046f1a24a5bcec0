"""Label-smoothed cross-entropy (section 5.4), as sums: only the training loop divides.

Shapes: N tokens of M rows, V vocabulary.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def perplexity(nll: float) -> float:
    """The exponential of the negative log-likelihood per token in nats; at most e^700."""
    return math.exp(min(nll, 700.0))


class LabelSmoothedCrossEntropy(nn.Module):
    """Cross-entropy with the target distribution (1 − ε) · gold + ε / V (section 5.4)."""

    def __init__(self, smoothing: float = 0.0) -> None:
        super().__init__()
        self.smoothing = smoothing

    def forward(
        self, logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """The smoothed loss and the negative log-likelihood in nats, summed over the first N rows.

        Later rows are padding.
        """
        log_p = logits[: len(gold)].to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        nll = -log_p.gather(1, gold[:, None]).double().sum()
        uniform = -log_p.double().sum() / logits.size(1)
        return (1 - self.smoothing) * nll + self.smoothing * uniform, nll.detach()
