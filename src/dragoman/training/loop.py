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

from dragoman.model import weights as checkpoint
from dragoman.model.interface import Model
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Update
from dragoman.training.checkpoint import Place, checkpoints, gather, resume, save, set_aside, step_of
from dragoman.training.context import Job, Samples, Schedule
from dragoman.training.divergence import DivergenceError
from dragoman.training.interrupt import TrainingInterruptedError, stop_signals
from dragoman.training.log import Log, progress_bar
from dragoman.training.metrics import Recent
from dragoman.training.objective import accumulate, seed_update
from dragoman.training.parallel import synchronised, unsharded
from dragoman.training.schedule import learning_rate
from dragoman.training.settings import TrainingSettings

LAYER = re.compile(r"^(\w+(\.\d+)?).*")  # of a weight's name, what is before the sub-layer
MIN_RATE_BACKOFF = 1 / 64  # of the recipe's rate: a run that diverges even so has another trouble


def train(job: Job) -> Place:
    """Train until the updates are done, validation stops improving, or a signal asks to end; give the place reached.

    Raises `DragomanError` where the loss is no number, unless the settings say to skip such updates or to roll back, and where
    torch.compile fails.
    """
    objective = job.objective(job.model).train()
    unwrapped_model = unwrapped(job)
    if job.settings.compile:
        compile_layers(job.model)
    together = synchronised(objective, job.model, job.world, job.shards)
    fresh = [weight.detach().clone() for weight in job.model.parameters()] if job.settings.on_divergence == "rollback" else []
    backoff, trouble, rolled_back_to = None, "", -1
    while True:
        job.model.zero_grad()
        optimizer = make_optimizer(job.model)
        place = resume(job.model, optimizer, job.folder, job.say, job.world)
        place = replace(place, rate_backoff=backoff or place.rate_backoff)
        if trouble:
            rolled_back_to = place.step
            tell_rollback(place, job, trouble)
        try:
            with compiling():
                return train_from(place, job, together, optimizer, unwrapped_model)
        except DivergenceError as error:
            backoff, trouble = place.rate_backoff / 2, error.what
            if job.settings.on_divergence != "rollback" or backoff < MIN_RATE_BACKOFF:
                raise
            found = checkpoints(job.folder)
            job.world.wait()  # until all have looked: one of them may set a checkpoint aside
            if len(found) > 1 and step_of(found[-1]) == rolled_back_to:  # and it has failed again: the trouble began before it
                set_aside(found[-1], job.world)
            for weight, value in zip(job.model.parameters(), fresh, strict=True):
                weight.data.copy_(value)


def tell_rollback(place: Place, job: Job, trouble: str) -> None:
    """Say where a run goes on from after a divergence, and note it in the log."""
    told = f"{trouble} {f'Rolled back to step {place.step}' if place.step else 'Begun again'}, with {place.rate_backoff:g} of the rate."
    job.say(told)
    if job.world.leads:
        Log(job.folder, place.step, job.settings.tensorboard).write("rollback", place.step, {"message": told})


@contextmanager
def compiling() -> Iterator[None]:
    """Make a sentence of what torch.compile raises."""
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        raise DragomanError(f"torch.compile failed ({str(error).splitlines()[0]}). Give the same command without --compile.") from error


def train_from(place: Place, job: Job, together: nn.Module, optimizer: torch.optim.Adam, unwrapped_model: Callable[[], Model]) -> Place:
    """`train` from a place on, up to the first divergence."""
    model, settings, schedule, world = job.model, job.settings, job.schedule, job.world
    recent = Recent(job, place, unwrapped_model)
    updates = ahead(job.batches.after(place.epoch, place.batches_done), world.device)
    with stop_signals(world, place.step) as stop, progress_bar(schedule.updates, place.step, world.leads) as advance, closing(updates):
        received = None
        while place.step < schedule.updates and not stopped_early(place, settings, schedule):
            update, step = next(updates), place.step + 1
            seed_update(settings.seed, step, world.rank)
            sums = accumulate(together, update, world)
            told = step % settings.log_every == 0
            layers = gradient_norms_by_layer(model) if told else {}
            rate = place.rate_backoff * settings.learning_rate_scale * learning_rate(step, job.width, schedule.warmup_steps)
            norm = step_optimizer(optimizer, model, rate, settings.clip_norm)
            recent.add(step, update, sums, norm, rate)
            if told:
                recent.tell(layers)
            optimizer.zero_grad()
            place = replace(place, step=step, epoch=update.epoch, batches_done=update.batches_done, seconds=recent.seconds)
            advance(update.tokens)
            saves = step % schedule.checkpoint_every == 0
            if step % schedule.validate_every == 0 or step == schedule.updates:
                recent.tell()  # before anything is kept: an update that was no number ends the run here
                refuse_non_finite_weights(model, step)
                judged = unwrapped_model()
                scores, samples = judge(judged, step, job)
                recent.write("validation", step, {"minutes": place.seconds / 60, **scores, "samples": samples})
                if place.best is None or better(scores, place.best, settings.best_by):
                    place, saves = replace(place, best=scores, best_step=step), True  # no rollback parts the best model from its place
                    if world.leads:
                        job.keep_best(judged)
                del judged
                recent.go_on()
            received = stop.after(step)
            if saves or received or step == schedule.updates or stopped_early(place, settings, schedule):
                recent.tell()
                refuse_non_finite_weights(model, step)
                save(model, optimizer, place, job)
                recent.go_on()
            if received:
                break
    world.wait()
    if received and place.step < schedule.updates and not stopped_early(place, settings, schedule):
        raise TrainingInterruptedError(received, place.step)
    return place


def judge(model: Model, step: int, job: Job) -> tuple[dict[str, float], Samples]:
    """The scores of the model on the validation data, and some translations. Raises `DivergenceError` for a loss that is no number."""
    scores, samples = job.validate(model)
    if not math.isfinite(scores["loss"]):
        raise DivergenceError(
            f"After step {step} the validation loss is {scores['loss']}. The best model before it is kept, if there is one.",
            "Give the same command a lower --learning-rate-scale, a --clip-norm or another --on-divergence.",
        )
    return scores, samples


def refuse_non_finite_weights(model: nn.Module, step: int) -> None:
    """Raise `DivergenceError` where weights are no numbers: neither the best model nor a checkpoint gets them. All processes call this."""
    if not unsharded(nn.utils.get_total_norm([weight.detach() for weight in model.parameters()])).isfinite():
        raise DivergenceError(
            f"After step {step} there are weights that are no numbers.", "Give the same command a lower --learning-rate-scale."
        )


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's constants (section 5.3)."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def step_optimizer(optimizer: torch.optim.Adam, model: nn.Module, rate: float, clip_norm: float) -> Tensor:
    """Change the weights, unless the gradient is no number: the device sees to that by itself. Gives the gradient's norm."""
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    norm = unsharded(nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None]))
    if clip_norm:
        nn.utils.clip_grads_with_norm_(weights, clip_norm, norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]  # the fused kernel then leaves all as it is
    optimizer.step()
    return norm


def ahead(updates: Iterator[Update], device: torch.device) -> Generator[Update, None, None]:
    """The same updates; each is read, and pinned for a GPU, in a thread while the one before it is computed."""

    def load() -> Update:
        update = next(updates)
        return update if device.type == "cpu" else replace(update, batches=[batch.pinned() for batch in update.batches])

    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(load)
        while True:
            update = coming.result()
            coming = thread.submit(load)
            yield update


def unwrapped(job: Job) -> Callable[[], Model]:
    """What gives the model as it is apart from training: with all its weights in this process, and not compiled.

    All processes call what it gives together.
    """
    if not job.shards and not job.settings.compile:
        return lambda: job.model
    plain = deepcopy(job.model).cpu()

    def copied() -> Model:
        copy = deepcopy(plain)
        checkpoint.load_weights(copy, gather(checkpoint.weights(job.model), keep=True), job.folder)
        return copy.to(job.world.device)

    return copied


def compile_layers(model: Model) -> None:
    """Let torch.compile fuse what is inside each layer; lengths may vary.

    Raises `DragomanError` for a model without layers, and where there is no compiler.
    """
    if not model.layers():
        raise DragomanError("--compile is for the transformer; this architecture has no layers that gain by it. Leave it out.")
    logging.getLogger("torch._functorch").setLevel(logging.ERROR)  # it warns with a traceback of what is told as a sentence
    with compiling():
        torch.compile(torch.Tensor.neg)(next(model.parameters()).detach()[:1])  # where nothing can be compiled, this fails at once
    for layer, _ in model.layers():
        layer.compile(dynamic=True)


def gradient_norms_by_layer(model: nn.Module) -> dict[str, Tensor]:
    """The norm of the gradient of each layer: of `encoder.0`, `target_embedding` and so on."""
    layers: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            layers.setdefault(LAYER.sub(r"\1", name), []).append(weight.grad)
    return {name: unsharded(nn.utils.get_total_norm(gradients)) for name, gradients in layers.items()}


def better(scores: dict[str, float], best: dict[str, float], by: str) -> bool:
    """Whether validation has improved: BLEU rises, or the loss falls; for the same BLEU the loss decides."""
    if by == "bleu" and scores["bleu"] != best["bleu"]:
        return scores["bleu"] > best["bleu"]
    return scores["loss"] < best["loss"]


def stopped_early(place: Place, settings: TrainingSettings, schedule: Schedule) -> bool:
    """Whether the last `patience` validations were no better than the best."""
    validations = place.step // schedule.validate_every - place.best_step // schedule.validate_every
    return 0 < settings.patience <= validations
