"""Where a loss or a gradient that is no number comes from."""

import torch
from torch import Tensor, nn

from dragoman.native.fused import unfused
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Batch


class DivergenceError(DragomanError):
    """The loss or the gradient is no number: what was seen, and what people may do, who are told both where the run ends."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what


def first_non_finite_layer(objective: nn.Module, batch: Batch) -> str | None:
    """The innermost module that first gives a value that is not finite, or else a weight whose gradient has one; None if none has.

    The batch is read forward and backward once more, with the weights of now and by PyTorch, which has every module's output; gradients
    are left as they are.
    """
    found: list[str] = []

    def watch(name: str) -> torch.utils.hooks.RemovableHandle:
        def look(_: nn.Module, __: object, output: object) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                found.append(name)

        return objective.get_submodule(name).register_forward_hook(look)

    handles = [watch(name) for name, _ in objective.named_modules() if name]
    try:
        with unfused(objective):
            loss, _ = objective(batch)
    finally:
        for handle in handles:
            handle.remove()
    if found:
        return f"the output of {found[0]}"
    if not loss.isfinite():
        return "the loss itself"
    names, weights = zip(*objective.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, weights, allow_unused=True)  # not `backward`, which processes would synchronise
    bad = [name for name, gradient in zip(names, gradients, strict=True) if gradient is not None and not gradient.isfinite().all()]
    return f"the gradient of {bad[-1]}" if bad else None
