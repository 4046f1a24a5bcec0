"""The training loop (section 5), to be read downwards."""

import logging
import math
import re
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn

from dragoman.model.interface import Model
from dragoman.model.weights import load_weights, weights
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Update
from dragoman.training.checkpoint import (
    TrainingState,
    checkpoints,
    invalidate,
    resume,
    save_checkpoint,
    step_of,
)
from dragoman.training.context import Samples, Scores, TrainingContext
from dragoman.training.distributed import data_parallel, unsharded, unsharded_on_cpu
from dragoman.training.interrupt import TrainingInterruptedError, stop_signals
from dragoman.training.log import Log, progress_bar
from dragoman.training.metrics import DivergenceError, UpdateMetrics
from dragoman.training.objective import accumulate, seed_update
from dragoman.training.schedule import Schedule, learning_rate
from dragoman.training.settings import TrainingSettings

LAYER = re.compile(r"^(\w+(\.\d+)?).*")  # the part of a weight's name before its sub-layer
# Of the recipe's learning rate: a lower rate would not help a run that still diverges.
MIN_RATE_BACKOFF = 1 / 64


def train(context: TrainingContext) -> TrainingState:
    """Train until the updates are done or validation stops improving. Returns the state reached.

    Raises `DivergenceError` for a NaN or an infinity, unless the settings say to skip such updates or to roll
    back; `TrainingInterruptedError` after a signal; `DragomanError` if torch.compile fails.
    """
    model, settings, world = context.model, context.settings, context.world
    objective: nn.Module = context.objective(model).train()
    full_model = full_model_getter(context)
    if settings.compile:
        compile_layers(model)
    objective = data_parallel(objective, model, world, context.shards_weights)
    initial = (
        [weight.detach().clone() for weight in model.parameters()]
        if settings.on_divergence == "rollback"
        else []
    )
    backoff, divergence, rolled_back_to = None, "", -1
    while True:
        model.zero_grad()
        optimizer = make_optimizer(model)
        state = resume(model, optimizer, context.folder, context.say, world)
        state = replace(state, rate_backoff=backoff or state.rate_backoff)
        if divergence:
            rolled_back_to = state.step
            report_rollback(state, context, divergence)
        try:
            with compiler_errors():
                return train_from(state, context, objective, optimizer, full_model)
        except DivergenceError as error:
            backoff, divergence = state.rate_backoff / 2, error.finding
            if settings.on_divergence != "rollback" or backoff < MIN_RATE_BACKOFF:
                raise
            found = checkpoints(context.folder)
            world.barrier()  # until all processes have listed them: the main one may rename one
            # Diverged twice from it: go back further.
            if len(found) > 1 and step_of(found[-1]) == rolled_back_to:
                invalidate(found[-1], world)
            for weight, value in zip(model.parameters(), initial, strict=True):
                weight.data.copy_(value)


def train_from(
    state: TrainingState,
    context: TrainingContext,
    objective: nn.Module,
    optimizer: torch.optim.Adam,
    full_model: Callable[[], Model],
) -> TrainingState:
    """`train` from a state on, up to the first divergence."""
    model, settings, schedule, world = context.model, context.settings, context.schedule, context.world
    metrics = UpdateMetrics(context, state, full_model)
    updates = prefetch(context.batches.updates(state.epoch, state.batches_done), world.device)
    received: int | None = None
    with (
        stop_signals(world, state.step) as stop,
        progress_bar(schedule.updates, state.step, world.is_main) as advance,
        closing(updates),
    ):
        while not received and not is_finished(state, settings, schedule):
            update, step = next(updates), state.step + 1
            seed_update(settings.seed, step, world.rank)
            sums = accumulate(objective, update, world)
            logs = step % settings.log_every == 0
            layer_norms = gradient_norms_by_layer(model) if logs else {}
            scale = state.rate_backoff * settings.learning_rate_scale
            rate = scale * learning_rate(step, context.d_model, schedule.warmup_steps)
            norm = step_optimizer(optimizer, model, rate, settings.clip_norm)
            metrics.add(step, update, sums, norm, rate)
            if logs:
                metrics.flush(layer_norms)
            optimizer.zero_grad()
            state = replace(
                state,
                step=step,
                epoch=update.epoch,
                batches_done=update.batches_done,
                seconds=metrics.seconds,
            )
            advance(update.tokens)
            saves = step % schedule.checkpoint_every == 0
            if step % schedule.validate_every == 0 or step == schedule.updates:
                metrics.flush()  # ends the run if an update was NaN, before anything is kept
                check_weights(model, step)
                candidate = full_model()
                scores, samples = validate(candidate, step, context)
                values = {"minutes": state.seconds / 60, **scores, "samples": samples}
                metrics.write("validation", step, values)
                if state.best is None or is_better(scores, state.best, settings.best_by):
                    state = replace(state, best=scores, best_step=step)
                    saves = True  # a rollback must not separate the kept model from the state that names it
                    if world.is_main:
                        context.keep_best(candidate)
                del candidate
                metrics.restart_clock()
            received = stop.after(step)
            if saves or received or is_finished(state, settings, schedule):
                metrics.flush()
                check_weights(model, step)
                save_checkpoint(model, optimizer, state, context)
                metrics.restart_clock()
    world.barrier()
    if received and not is_finished(state, settings, schedule):
        raise TrainingInterruptedError(received, state.step)
    return state


def is_finished(state: TrainingState, settings: TrainingSettings, schedule: Schedule) -> bool:
    """Whether all updates are done, or validation has stopped improving."""
    return state.step >= schedule.updates or stopped_early(state, settings, schedule)


def stopped_early(state: TrainingState, settings: TrainingSettings, schedule: Schedule) -> bool:
    """Whether the last `patience` validations were no better than the best."""
    validations = state.step // schedule.validate_every - state.best_step // schedule.validate_every
    return 0 < settings.patience <= validations


def is_better(scores: Scores, best: Scores, by: str) -> bool:
    """Whether validation has improved: higher BLEU or lower loss, as `best_by` says.

    The loss decides if BLEU is equal.
    """
    if by == "bleu" and scores["bleu"] != best["bleu"]:
        return scores["bleu"] > best["bleu"]
    return scores["loss"] < best["loss"]


def validate(model: Model, step: int, context: TrainingContext) -> tuple[Scores, Samples]:
    """Scores on the validation data, and some translations.

    Raises `DivergenceError` if the loss is NaN or infinite.
    """
    scores, samples = context.validate(model, f"at update {step:,}")
    if not math.isfinite(scores["loss"]):
        raise DivergenceError(
            f"After update {step} the validation loss is {scores['loss']}. The best model before it is kept, "
            "if there is one.",
            "Give the same command a lower --learning-rate-scale, a --clip-norm or another --on-divergence.",
        )
    return scores, samples


def check_weights(model: nn.Module, step: int) -> None:
    """Raise `DivergenceError` if a weight is NaN or infinite, before anything is kept.

    All processes call this.
    """
    if not unsharded(nn.utils.get_total_norm([weight.detach() for weight in model.parameters()])).isfinite():
        raise DivergenceError(
            f"After update {step} some weights are NaN or infinite.",
            "Give the same command a lower --learning-rate-scale.",
        )


def report_rollback(state: TrainingState, context: TrainingContext, divergence: str) -> None:
    """Say where a run continues after a divergence, and log it."""
    where = f"Rolled back to update {state.step}" if state.step else "Restarted"
    message = f"{divergence} {where}, with {state.rate_backoff:g} times the learning rate."
    context.say(message)
    if context.world.is_main:
        log = Log(context.folder, state.step, context.settings.tensorboard)
        log.write("rollback", state.step, {"message": message})


# ---- the optimizer (section 5.3)


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's β₁ = 0.9, β₂ = 0.98 and ε = 10⁻⁹ (section 5.3)."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def step_optimizer(optimizer: torch.optim.Adam, model: nn.Module, rate: float, clip_norm: float) -> Tensor:
    """Update the weights and return the gradient's norm before clipping.

    A NaN or infinite gradient changes nothing: the device decides that without asking the host.
    """
    trained = [weight for weight in model.parameters() if weight.grad is not None]
    norm = unsharded(nn.utils.get_total_norm([weight.grad for weight in trained if weight.grad is not None]))
    if clip_norm:
        nn.utils.clip_grads_with_norm_(trained, clip_norm, norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    # The fused kernel skips the step if this is 1.
    optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]
    optimizer.step()
    return norm


def gradient_norms_by_layer(model: nn.Module) -> dict[str, Tensor]:
    """The gradient norm of each layer: `encoder.0`, `target_embedding` and so on."""
    layers: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            layers.setdefault(LAYER.sub(r"\1", name), []).append(weight.grad)
    return {name: unsharded(nn.utils.get_total_norm(gradients)) for name, gradients in layers.items()}


# ---- data and model


def prefetch(updates: Iterator[Update], device: torch.device) -> Generator[Update, None, None]:
    """The same updates.

    A thread reads the next one, and pins it for a GPU, while the current one is computed.
    """

    def load() -> Update:
        update = next(updates)
        return (
            update
            if device.type == "cpu"
            else replace(update, batches=[batch.pin_memory() for batch in update.batches])
        )

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(load)
        while True:
            update = future.result()
            future = thread.submit(load)
            yield update


def full_model_getter(context: TrainingContext) -> Callable[[], Model]:
    """A function that returns the model with all its weights in this process, not compiled.

    All processes call it.
    """
    if not context.shards_weights and not context.settings.compile:
        return lambda: context.model
    original = deepcopy(context.model).cpu()

    def full_copy() -> Model:
        copy = deepcopy(original)
        load_weights(copy, unsharded_on_cpu(weights(context.model), keep=True), context.folder)
        return copy.to(context.world.device)

    return full_copy


def compile_layers(model: Model) -> None:
    """Compile each layer with torch.compile, for sentences of any length.

    Raises `DragomanError` if the model has no layers, or if there is no compiler.
    """
    if not model.layers():
        raise DragomanError(
            "--compile is for the transformer; this architecture has no layers to compile. Leave it out."
        )
    # It logs a traceback of the error that is raised too.
    logging.getLogger("torch._functorch").setLevel(logging.ERROR)
    with compiler_errors():
        # Fails at once if nothing can be compiled.
        torch.compile(torch.Tensor.neg)(next(model.parameters()).detach()[:1])
    for layer, _ in model.layers():
        layer.compile(dynamic=True)


@contextmanager
def compiler_errors() -> Iterator[None]:
    """Raise the errors of torch.compile as a `DragomanError`."""
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        reason = str(error).splitlines()[0]
        raise DragomanError(
            f"torch.compile failed ({reason}). Give the same command without --compile."
        ) from error
