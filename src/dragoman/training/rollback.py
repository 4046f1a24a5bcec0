"""Training that begins again from a checkpoint after a divergence (`--on-divergence rollback`)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import nn

from dragoman.model.interface import Model
from dragoman.training.checkpoint import TrainingState, checkpoints, resume, save_checkpoint, step_of
from dragoman.training.context import DivergenceError, TrainingContext
from dragoman.training.log import Log
from dragoman.training.loop import train_from
from dragoman.training.world import World

# Of the recipe's learning rate: a lower rate would not help a run that still diverges.
MIN_RATE_BACKOFF = 1 / 64


def train_with_rollback(
    context: TrainingContext, objective: nn.Module, full_model: Callable[[], Model]
) -> TrainingState:
    """Train, with half the learning rate after each divergence.

    Rolls back to the last checkpoint. If the run diverges again from there, it goes back to the one before,
    if there is one. Without a checkpoint it starts again. Raises `DivergenceError` if the rate would fall
    below `MIN_RATE_BACKOFF`.
    """
    model, world = context.model, context.world
    initial = [weight.detach().clone() for weight in model.parameters()]
    optimizer = context.make_optimizer(model)
    state = resume(model, optimizer, context.folder, context.say, world)
    while True:
        try:
            return train_from(state, context, objective, optimizer, full_model)
        except DivergenceError as error:
            backoff, finding, rolled_back_to = state.rate_backoff / 2, error.finding, state.rolled_back_to
            if backoff < MIN_RATE_BACKOFF:
                raise
        found = checkpoints(context.folder)
        world.barrier()  # until all processes have listed them: the main one may rename one
        # Diverged twice from it: go back further.
        if len(found) > 1 and step_of(found[-1]) == rolled_back_to:
            invalidate(found[-1], world)
        for weight, value in zip(model.parameters(), initial, strict=True):
            weight.data.copy_(value)
        model.zero_grad()
        optimizer = context.make_optimizer(model)
        kept = state.best, state.best_step  # the kept model may be later than the checkpoint
        state = resume(model, optimizer, context.folder, context.say, world)
        best, best_step = max((state.best, state.best_step), kept, key=lambda each: each[1])
        state = replace(
            state, rate_backoff=backoff, best=best, best_step=best_step, rolled_back_to=state.step
        )
        if state.step:  # a process that is killed before the next checkpoint resumes with the lower rate
            save_checkpoint(model, optimizer, state, context)
        report_rollback(state, context, finding)


def invalidate(path: Path, world: World) -> None:
    """Rename a checkpoint, so that it is not loaded; the next save deletes it. All processes call this."""
    if world.is_main:
        path.rename(path.with_name(f"ruined-{path.name}"))
    world.barrier()


def report_rollback(state: TrainingState, context: TrainingContext, divergence: str) -> None:
    """Say where a run continues after a divergence, and log it."""
    where = f"Rolled back to update {state.step:,}" if state.step else "Restarted"
    message = f"{divergence} {where}, with {state.rate_backoff:g} times the learning rate."
    context.say(message)
    if context.world.is_main:
        log = Log(context.folder, state.step, context.settings.tensorboard)
        log.write("rollback", state.step, {"message": message})
