"""Training that begins again from a checkpoint after a divergence (`--on-divergence rollback`)."""

import logging
from dataclasses import replace
from pathlib import Path

import torch

from dragoman.training.checkpoint import TrainingState, checkpoints, resume, save_checkpoint, step_of
from dragoman.training.context import TrainingContext
from dragoman.training.log import new_log
from dragoman.training.world import World

logger = logging.getLogger(__name__)
# Of the recipe's learning rate: a lower rate would not help a run that still diverges.
MIN_RATE_BACKOFF = 1 / 64


class Rollback:
    """A way back to a checkpoint after a divergence, with half the learning rate."""

    def __init__(self, context: TrainingContext) -> None:
        self.context = context
        self.initial = [weight.detach().clone() for weight in context.model.parameters()]

    def is_possible(self, state: TrainingState) -> bool:
        """Whether half the learning rate is not below `MIN_RATE_BACKOFF`."""
        return state.rate_backoff / 2 >= MIN_RATE_BACKOFF

    def after(self, finding: str, state: TrainingState) -> tuple[TrainingState, torch.optim.Adam]:
        """The state to train from, and its optimizer; `state` is that from which the run diverged.

        The last checkpoint has it. If the run diverges again from there, the one before has it, if there is
        one. Without a checkpoint the run starts again. `finding` is what was not finite, for the message.
        """
        context, model, world = self.context, self.context.model, self.context.world
        backoff = state.rate_backoff / 2
        paths = checkpoints(context.folder)
        world.barrier()  # until all processes have listed them: the main one may rename one
        # Diverged twice from it: go back further.
        if len(paths) > 1 and step_of(paths[-1]) == state.rolled_back_to:
            invalidate(paths[-1], world)
        for weight, value in zip(model.parameters(), self.initial, strict=True):
            weight.data.copy_(value)
        model.zero_grad()
        optimizer = context.make_optimizer(model)
        previous_best = state.best, state.best_step  # the kept model may be later than the checkpoint
        state = resume(model, optimizer, context.folder, world)
        best, best_step = max((state.best, state.best_step), previous_best, key=lambda pair: pair[1])
        state = replace(
            state, rate_backoff=backoff, best=best, best_step=best_step, rolled_back_to=state.step
        )
        if state.step:  # a process that is killed before the next checkpoint resumes with the lower rate
            save_checkpoint(model, optimizer, state, context)
        report_rollback(state, context, finding)
        return state, optimizer


def invalidate(path: Path, world: World) -> None:
    """Rename a checkpoint, so that it is not loaded; the next save deletes it. All processes call this."""
    if world.is_main:
        path.rename(path.with_name(f"ruined-{path.name}"))
    world.barrier()


def report_rollback(state: TrainingState, context: TrainingContext, divergence: str) -> None:
    """Say where a run continues after a divergence, and log it."""
    action = f"Rolled back to update {state.step:,}" if state.step else "Restarted"
    message = f"{divergence} {action}, with {state.rate_backoff:g} times the learning rate."
    logger.info(message)
    if context.world.is_main:
        log = new_log(context, state.step)
        log.write("rollback", state.step, {"message": message})
