"""The training loop (section 5), top-down."""

import math
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import torch
from torch import nn

from dragoman.model.interface import Model
from dragoman.system.device import is_cpu
from dragoman.text.batches import Update
from dragoman.training.checkpoint import TrainingState, resume, save_checkpoint
from dragoman.training.context import DivergenceError, Samples, Scores, TrainingContext
from dragoman.training.gradient_norms import gradient_norms_by_layer
from dragoman.training.interrupt import (
    ENDED,
    OUT_OF_TIME,
    TrainingEndedError,
    TrainingInterruptedError,
    stop_signals,
)
from dragoman.training.log import UpdateMetrics, progress_bar
from dragoman.training.objective import (
    accumulate_gradients,
    seed_update,
    step_optimizer,
    with_graphs,
)
from dragoman.training.rollback import Rollback
from dragoman.training.settings import Schedule, TrainingSettings
from dragoman.training.sharding import full_copies
from dragoman.training.world import unsharded


def train(context: TrainingContext) -> TrainingState:
    """Train until the updates are done, validation stops improving or the time is over.

    Returns the state reached; a checkpoint has it.

    Raises `DivergenceError` for a NaN or an infinity; with `on_divergence = "skip"` if it is in the
    validation loss or the weights, or if too many updates in succession have one; with `"rollback"` if the
    rate would fall below `MIN_RATE_BACKOFF`. Raises `TrainingInterruptedError` after a signal,
    `TrainingEndedError` if the observer wants the end, and `DragomanError` if no checkpoint can be resumed
    from.
    """
    model, settings, world = context.model, context.settings, context.world
    objective = context.make_objective(model, settings).train()
    shards = settings.shard and world.size > 1
    full_model = full_copies(context) if shards else lambda: model
    objective = with_graphs(world.data_parallel(objective, model, shards))
    rollback = Rollback(context) if settings.on_divergence == "rollback" else None
    optimizer = context.make_optimizer(model)
    state = resume(model, optimizer, context.folder, world)
    while True:
        try:
            return train_from(state, context, objective, optimizer, full_model)
        except DivergenceError as error:
            if rollback is None or not rollback.is_possible(state):
                raise
            finding = error.finding  # not the error, whose traceback keeps batches and gradients
        del optimizer  # its moments, before those of the checkpoint are read
        state, optimizer = rollback.after(finding, state)


def train_from(
    state: TrainingState,
    context: TrainingContext,
    objective: nn.Module,
    optimizer: torch.optim.Adam,
    full_model: Callable[[], Model],
) -> TrainingState:
    """Train from `state` until the run is finished. Raises as `train`.

    `full_model` returns the model with all its weights in this process. All processes call it.
    """
    model, settings, schedule, world = context.model, context.settings, context.schedule, context.world
    metrics = UpdateMetrics(context, full_model, state.step, state.seconds)
    updates = prefetch(context.batches.updates(state.epoch, state.batches_done), world.device)
    signal_received: int | None = None
    with (
        stop_signals(world.stop_request(state.step, metrics.time_at(context.max_seconds))) as stop,
        progress_bar(schedule.updates, context.planned_seconds, world.is_main) as advance,
        closing(updates),
    ):
        while not signal_received and not is_finished(state, settings, schedule):
            update, step = next(updates), state.step + 1
            seed_update(settings.seed, step, world.rank)
            sums = accumulate_gradients(objective, update, world)
            should_log = step % settings.log_every == 0
            norms_by_layer = gradient_norms_by_layer(model) if should_log else {}
            rate = state.rate_backoff * context.learning_rate(step)
            norm = step_optimizer(optimizer, model, rate, settings.clip_norm)
            metrics.add(step, update, sums, norm, rate)
            if should_log:
                metrics.flush(norms_by_layer)
            optimizer.zero_grad()
            epoch, done = update.epoch, update.batches_done
            state = replace(state, step=step, epoch=epoch, batches_done=done, seconds=metrics.seconds)
            advance(step, state.seconds, update.tokens)
            should_save = step % schedule.checkpoint_every == 0
            if step % schedule.validate_every == 0 or step == schedule.updates:
                state = validate_and_keep(state, metrics, context, full_model)
                should_save |= state.best_step == step  # a rollback must find the state of the kept model
            if context.observer.wants_end:
                stop.signal_number = stop.signal_number or ENDED
            signal_received = stop.after(step)
            if should_save or signal_received or is_finished(state, settings, schedule):
                metrics.flush()
                check_weights(model, step)
                save_checkpoint(model, optimizer, state, context)
                metrics.restart_clock()
    world.barrier()
    if signal_received == ENDED:
        raise TrainingEndedError(state.step)
    if signal_received and signal_received != OUT_OF_TIME:
        raise TrainingInterruptedError(signal_received, state.step)
    return state


def validate_and_keep(
    state: TrainingState, metrics: UpdateMetrics, context: TrainingContext, full_model: Callable[[], Model]
) -> TrainingState:
    """Validate, and keep the model if it is the best so far: the state that is returned says so.

    Raises `DivergenceError` for a NaN or an infinity, before anything is kept.
    """
    metrics.flush()
    check_weights(context.model, state.step)
    candidate = full_model()
    started = metrics.seconds
    scores, samples = validate(candidate, state.step, context)
    times = {"minutes": state.seconds / 60, "seconds": metrics.seconds - started}
    values = {**times, **scores, "samples": samples}
    metrics.write("validation", state.step, values)
    if state.best is None or is_better(scores, state.best, context.settings.best_by):
        state = replace(state, best=scores, best_step=state.step)
        if context.world.is_main:
            context.keep_best(candidate)
    metrics.restart_clock()
    return with_extremes(state, scores)


def with_extremes(state: TrainingState, scores: Scores) -> TrainingState:
    """The state after a validation: with the lowest loss and the highest BLEU so far, and their last step."""
    lowest = scores["loss"] if state.lowest_loss is None else min(scores["loss"], state.lowest_loss)
    highest = scores["bleu"] if state.highest_bleu is None else max(scores["bleu"], state.highest_bleu)
    has_improved = (lowest, highest) != (state.lowest_loss, state.highest_bleu)
    step = state.step if has_improved else state.improved_step
    return replace(state, lowest_loss=lowest, highest_bleu=highest, improved_step=step)


def is_finished(state: TrainingState, settings: TrainingSettings, schedule: Schedule) -> bool:
    """Whether all updates are done, or validation has stopped improving."""
    return state.step >= schedule.updates or stopped_early(state, settings, schedule)


def stopped_early(state: TrainingState, settings: TrainingSettings, schedule: Schedule) -> bool:
    """Whether the last `patience` validations had no better BLEU or loss, and the warm-up is over.

    Never with a trapezoid, because scores improve most in its cooldown.
    """
    if settings.schedule == "trapezoid":
        return False
    validations = state.step // schedule.validate_every - state.improved_step // schedule.validate_every
    return 0 < settings.patience <= validations and state.step > schedule.warmup_steps


def is_better(scores: Scores, best: Scores, best_by: str) -> bool:
    """Whether validation has improved: higher BLEU or lower loss, as `best_by` says.

    The loss decides if BLEU is equal.
    """
    if best_by == "bleu" and scores["bleu"] != best["bleu"]:
        return scores["bleu"] > best["bleu"]
    return scores["loss"] < best["loss"]


def validate(model: Model, step: int, context: TrainingContext) -> tuple[Scores, Samples]:
    """Scores on the validation data, and some translations.

    Raises `DivergenceError` if the loss is NaN or infinite.
    """
    scores, samples = context.validate(model, f"at update {step:,}")
    if not math.isfinite(scores["loss"]):
        raise DivergenceError(
            f"After update {step:,} the validation loss is {scores['loss']}. The best model before it is "
            "kept, if there is one.",
            "Repeat the command or call that started the training, with a lower {learning_rate_scale}, a "
            "{clip_norm} or another {on_divergence}.",
        )
    return scores, samples


def check_weights(model: nn.Module, step: int) -> None:
    """Raise `DivergenceError` if a weight is NaN or infinite, before anything is kept.

    All processes call this.
    """
    if not unsharded(nn.utils.get_total_norm([weight.detach() for weight in model.parameters()])).isfinite():
        raise DivergenceError(
            f"After update {step:,} some weights are NaN or infinite.",
            "Repeat the command or call that started the training, with a lower {learning_rate_scale}.",
        )


def prefetch(updates: Iterator[Update], device: torch.device) -> Generator[Update, None, None]:
    """The same updates.

    A thread reads the next one, and pins it for a GPU, while the current one is computed.
    """

    def load() -> Update:
        update = next(updates)
        if is_cpu(device):
            return update
        return replace(update, batches=[batch.pin_memory() for batch in update.batches])

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(load)
        while True:
            update, future = future.result(), thread.submit(load)
            yield update
