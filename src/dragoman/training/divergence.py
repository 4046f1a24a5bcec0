"""An update that is NaN or infinite: where that comes from, and what is done. Imported when one occurs."""

import logging

import torch
from torch import Tensor, nn

from dragoman.model.interface import Model
from dragoman.native.fused import unfused
from dragoman.system.errors import is_out_of_memory
from dragoman.text.batches import Batch, Update
from dragoman.training.context import DivergenceError, TrainingContext
from dragoman.training.objective import seed_update

logger = logging.getLogger(__name__)
MAX_NON_FINITE = 20  # updates in succession that are NaN or infinite end the run
MAX_LINES = 8  # that a message names


def skip_or_raise(
    context: TrainingContext, model: Model, step: int, update: Update, values: str, consecutive: int
) -> str:
    """Say that a non-finite update is skipped and return what was found, or raise `DivergenceError`.

    `values` names its loss and gradient norm; `consecutive` counts such updates in succession, up to this
    one.
    """
    finding = (
        f"In update {step:,} (epoch {update.epoch}, batch {update.batches_done}) {values}, in lines "
        f"{locate(context, model, step, update)}"
    )
    if context.settings.on_divergence == "skip" and consecutive < MAX_NON_FINITE:
        logger.info(f"{finding} The update is skipped.")
        return finding
    raise DivergenceError(
        f"{finding} It did not change the weights.",
        "Repeat the command or call that started the training, with a lower {learning_rate_scale}, a "
        "{clip_norm} or another {on_divergence}, or check these lines.",
    )


def locate(context: TrainingContext, model: Model, step: int, update: Update) -> str:
    """The lines of text of a non-finite update, in the process where it occurred, and its first such layer.

    `model` is unsharded. All processes call this.
    """
    world, corpus = context.world, context.batches.corpus
    numbers = sorted(corpus.line_number(pair) for batch in update.batches for pair in batch.pairs)
    rest = f" and {len(numbers) - MAX_LINES} more" if len(numbers) > MAX_LINES else ""
    lines = f"{', '.join(map(str, numbers[:MAX_LINES]))}{rest}"
    layers = world.gather([_first_layer(context, model, step, update)], world.size)
    rank = next((rank for rank, layer in enumerate(layers) if layer), 0)
    cause = (
        f"First non-finite value: {layers[rank]}."
        if layers[rank]
        else "It does not recur with the current weights."
    )
    return f"{world.gather([lines], world.size)[rank]} of the training text. {cause}"


def _first_layer(context: TrainingContext, model: Model, step: int, update: Update) -> str:
    """`first_non_finite_layer` of this process's batches, or an empty string."""
    objective = context.make_objective(model, context.settings).train()
    seed_update(context.settings.seed, step, context.world.rank)
    try:
        layers = (
            first_non_finite_layer(objective, batch.to(context.world.device)) for batch in update.batches
        )
        return next(filter(None, layers), "")
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return "unknown, since there is not enough memory to search for it"


def first_non_finite_layer(objective: nn.Module, batch: Batch) -> str | None:
    """The innermost module whose output is the first to be NaN or infinite, or a weight with such a gradient.

    Repeats the forward and the backward pass with the current weights in PyTorch, which shows the output of
    every module. Gradients are not changed. Returns None if all is finite.
    """
    non_finite: list[str] = []

    def watch(name: str) -> torch.utils.hooks.RemovableHandle:
        def check(_: nn.Module, __: object, output: object) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                non_finite.append(name)

        return objective.get_submodule(name).register_forward_hook(check)

    handles = [watch(name) for name, _ in objective.named_modules() if name]
    try:
        with unfused(objective):
            loss, _ = objective(batch)
    finally:
        for handle in handles:
            handle.remove()
    if non_finite:
        return f"the output of {non_finite[0]}"
    if not loss.isfinite():
        return "the loss"
    trained = {name: weight for name, weight in objective.named_parameters() if weight.requires_grad}
    # `backward` would synchronise processes.
    gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    named = zip(trained, gradients, strict=True)
    non_finite_gradients = [
        name for name, gradient in named if gradient is not None and not gradient.isfinite().all()
    ]
    return f"the gradient of {non_finite_gradients[-1]}" if non_finite_gradients else None
