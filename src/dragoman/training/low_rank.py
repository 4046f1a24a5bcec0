"""LoRA (Hu et al. 2022): the change of a weight W [out, in] is a product of two narrow matrices.

    W = W₀ + α/r · B A,    A [r, in],  B [out, r]

The model keeps one matrix W, in which the change is merged at every update, so nothing that reads the model
knows of it. By the chain rule, the gradients of the factors follow from that of W:

    ∂A = α/r · Bᵀ ∂W,    ∂B = α/r · ∂W Aᵀ
"""

import math

import torch
from torch import Tensor, nn

FACTORS = ("a", "b")


class LowRankAdam(torch.optim.Adam):
    """Adam with the paper's constants (section 5.3), on the factors A and B of every weight that is trained.

    A begins with random numbers and B with zeros, so W begins with W₀. The state of a weight has W₀, both
    factors and their moments.
    """

    def __init__(self, model: nn.Module, rank: int, alpha: float, seed: int) -> None:
        """Every weight of the model with `requires_grad` has to be a matrix. A depends on the seed alone."""
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        super().__init__(trained, lr=0.0, betas=(0.9, 0.98), eps=1e-9)
        self.rank, self.scale, self.seed = rank, alpha / rank, seed
        self.found_inf = torch.zeros(())

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update the factors, then W. A NaN or infinite gradient changes nothing."""
        if self.found_inf:
            return
        generator = torch.Generator().manual_seed(self.seed)
        for weight in self.param_groups[0]["params"]:
            state = self.state[weight]
            if not state:
                a = torch.randn(self.rank, weight.shape[1], generator=generator) / math.sqrt(weight.shape[1])
                state |= {"initial": weight.clone(), "step": torch.zeros(())}
                state |= {"a": a.to(weight), "b": weight.new_zeros(len(weight), self.rank)}
                for name in FACTORS:
                    state |= {
                        f"{name}_{moment}": torch.zeros_like(state[name]) for moment in ("mean", "square")
                    }
            if weight.grad is not None:
                self._update(weight, weight.grad, state)

    def _update(self, weight: Tensor, gradient: Tensor, state: dict[str, Tensor]) -> None:
        """An update of one weight: Adam on both factors, as in `torch.optim.Adam`, and their product."""
        (group,) = self.param_groups
        beta1, beta2 = group["betas"]
        state["step"] += 1
        count = state["step"].item()
        gradients = self.scale * state["b"].T @ gradient, self.scale * gradient @ state["a"].T
        for name, factor_gradient in zip(FACTORS, gradients, strict=True):
            mean, square = state[f"{name}_mean"], state[f"{name}_square"]
            mean.lerp_(factor_gradient, 1 - beta1)
            square.mul_(beta2).addcmul_(factor_gradient, factor_gradient, value=1 - beta2)
            deviation = (square / (1 - beta2**count)).sqrt_().add_(group["eps"])
            state[name].addcdiv_(mean, deviation, value=-group["lr"] / (1 - beta1**count))
        torch.addmm(state["initial"], state["b"], state["a"], alpha=self.scale, out=weight)
