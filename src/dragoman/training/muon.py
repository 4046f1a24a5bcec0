"""Muon (Jordan et al. 2024): an optimizer for matrices, whose steps change all directions by the same amount.

With the gradient G of a weight matrix W, and μ = 0.95:

    M ← μ M + (1 - μ) G,    D = μ M + (1 - μ) G,    W ← W - η · 0.2 √max(rows, columns) · orthogonal(D)

`orthogonal(D)` is near U Vᵀ, where D = U Σ Vᵀ is the singular value decomposition. The factor gives a step
the size of Adam's (Liu et al. 2025), so both have one learning rate η.
"""

import math
from collections import defaultdict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.system.device import has_bfloat16, is_cuda

MOMENTUM = 0.95
STEP_SIZE = 0.2
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of a Newton-Schulz iteration: they bring singular values between 0 and 1 to 0.7 to 1.2 fast."""


class Muon(torch.optim.Adam):
    """Muon for the matrices of linear maps, and Adam with the paper's constants for all other weights.

    Those are embeddings, biases, and the gains of norms. W^Q, W^K and W^V are matrices of their own. The
    state of a matrix has its M.
    """

    def __init__(self, model: nn.Module) -> None:
        """The model has a weight that is not the matrix of a linear map. Its weights are not sharded."""
        self.matrices = linear_weights(model)
        others = [weight for weight in model.parameters() if weight not in self.matrices]
        super().__init__(others, lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
        device = others[0].device
        self.number_type = torch.bfloat16 if has_bfloat16(is_cuda(device)) else torch.float32
        self.found_inf = torch.zeros((), device=device)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update all weights. A NaN or infinite gradient changes nothing."""
        super().step()
        if self.found_inf:
            return
        rate = self.param_groups[0]["lr"]
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for weight, heights in self.matrices.items():
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state["momentum"] = torch.zeros_like(weight)
            momentum = state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
            direction = weight.grad.lerp(momentum, MOMENTUM)
            for matrix, part in zip(weight.split(heights), direction.split(heights), strict=True):
                by_shape[matrix.shape].append((matrix, part))
        for shape, pairs in by_shape.items():
            directions = torch.stack([direction for _, direction in pairs]).to(self.number_type)
            factor = -rate * STEP_SIZE * math.sqrt(max(shape))
            for (matrix, _), direction in zip(pairs, orthogonal(directions), strict=True):
                matrix.add_(direction, alpha=factor)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all weights."""
        super().zero_grad(set_to_none)
        for weight in self.matrices:
            weight.grad = None


def linear_weights(model: nn.Module) -> dict[Tensor, list[int]]:
    """The weights [rows, columns] of linear maps, each with the rows of the matrices that it consists of."""
    weights = {
        module.weight: [module.weight.size(0)] for module in model.modules() if isinstance(module, nn.Linear)
    }
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    return weights | {attention.query_key_value.weight: attention.widths for attention in attentions}


def orthogonal(matrices: Float[Tensor, "K N M"]) -> Float[Tensor, "K N M"]:
    """Matrices with the singular vectors of these, and singular values near 1; those of 0 stay 0.

    Each iteration applies the polynomial a x + b x³ + c x⁵ to the singular values.
    """
    if matrices.size(-2) > matrices.size(-1):
        return orthogonal(matrices.mT).mT
    a, b, c = COEFFICIENTS
    x = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-30)  # singular values up to 1
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, factor, x, beta=a)
    return x
