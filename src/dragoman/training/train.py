"""The training loop (section 5), to be read downwards, and what it needs to go on after any interruption."""

import json
import math
import re
import shutil
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.errors import DragomanError
from dragoman.model.contract import Model
from dragoman.model.loss import cross_entropy
from dragoman.text.batches import Batch, Batches, Update
from dragoman.training import checkpoint
from dragoman.training.distributed import World, synchronised
from dragoman.training.divergence import first_bad_layer
from dragoman.training.log import Log, progress_bar
from dragoman.training.schedule import learning_rate
from dragoman.training.settings import TrainingSettings

Say = Callable[[str], None]
Samples = list[dict[str, str]]
Validate = Callable[[Model], tuple[dict[str, float], Samples]]
LAYER = re.compile(r"^(\w+(\.\d+)?).*")  # of a weight's name, what is before the sub-layer
MOST_BAD = 20  # updates in succession that may be left out
LEAST_PACE = 1 / 64  # of the recipe's rate: a run that diverges even so has another trouble


@dataclass(frozen=True)
class Schedule:
    """The numbers of a run that a recipe may leave open, chosen: all but the flag in updates."""

    updates: int
    warmup_steps: int
    validate_every: int
    checkpoint_every: int
    bfloat16: bool


@dataclass(frozen=True)
class Place:
    """How far a run has come: with weights and optimizer, all that the rest of it depends on."""

    step: int = 0
    epoch: int = 0
    batches_done: int = 0
    best_step: int = 0
    best: dict[str, float] | None = None
    seconds: float = 0.0
    pace: float = 1.0
    """What the rate is multiplied by; halved each time that the run was rolled back."""


class DivergenceError(DragomanError):
    """The loss or the gradient is no number."""


class Objective(nn.Module):
    """Smoothed loss and negative log-likelihood of a batch (section 5.4), as the module that processes synchronise.

    Both in nats, summed over the batch's target tokens without padding.
    """

    def __init__(self, model: Model, smoothing: float, bfloat16: bool) -> None:
        super().__init__()
        self.model, self.smoothing, self.in_bfloat16 = model, smoothing, bfloat16

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=self.in_bfloat16):
            features, _ = self.model.decode(batch.target_in, self.model.encode(batch.source))
            real = features.flatten(0, 1).index_select(0, batch.places)
            return cross_entropy(self.model.logits(real), batch.gold, self.smoothing)


@torch.no_grad()
def corpus_loss(objective: Objective, batches: Iterable[Batch], world: World) -> dict[str, float]:
    """Validation: smoothed loss, negative log-likelihood (both a token) and perplexity, of all processes' batches together."""
    training = objective.training
    objective.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=world.device)
    for batch in batches:
        sums += torch.stack([*objective(batch.to(world.device)), sums.new_tensor(batch.tokens)])
    objective.train(training)
    loss, nll, tokens = world.sum(sums).tolist()
    return {"loss": loss / tokens, "nll": nll / tokens, "perplexity": math.exp(min(nll / tokens, 700))}


def accumulate(objective: nn.Module, update: Update, world: World) -> Tensor:
    """Add the gradient of the mean loss over all tokens of the update; give this process's loss and likelihood (sums).

    Where memory does not suffice, the update begins again with every batch cut in two: its gradient is the same.
    """
    batches = update.batches
    while True:
        try:
            return _accumulate(objective, batches, update.tokens, world)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            short = f"The memory does not suffice for {len(batches[0].pairs)} pairs at once; give the same command a lower --max-tokens."
            if world.size > 1 or max(len(batch.pairs) for batch in batches) < 2:
                raise DragomanError(short) from error
        objective.zero_grad()
        batches = [half for batch in batches for half in (batch.halves() if len(batch.pairs) > 1 else [batch])]


def _accumulate(objective: nn.Module, batches: list[Batch], tokens: int, world: World) -> Tensor:
    """`accumulate`, where memory suffices. Processes synchronise once, in the last backward pass."""
    sums = torch.zeros(2, dtype=torch.float64, device=world.device)
    for number, batch in enumerate(batches, 1):
        last = number == len(batches)
        with objective.no_sync() if isinstance(objective, DistributedDataParallel) and not last else nullcontext():
            loss, nll = objective(batch.to(world.device))
            (loss * (world.size / tokens)).backward()
        sums += torch.stack([loss.detach(), nll])
    return sums


def out_of_memory(error: RuntimeError) -> bool:
    """Whether the error says that memory is used up: of a GPU, or of the machine."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's constants (section 5.3)."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def step_optimizer(optimizer: torch.optim.Adam, model: nn.Module, rate: float, clip_norm: float) -> Tensor:
    """Change the weights, unless the gradient is no number: the device sees to that by itself. Gives the gradient's norm."""
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    norm = nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
    if clip_norm:
        nn.utils.clip_grads_with_norm_(weights, clip_norm, norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]  # the fused kernel then leaves all as it is
    optimizer.step()
    return norm


def seed_update(seed: int, step: int, rank: int) -> None:
    """Make the random numbers of an update depend on these three alone, so that a resumed run draws those of one that ran through."""
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0]))


def train(
    model: Model,
    batches: Batches,
    settings: TrainingSettings,
    schedule: Schedule,
    width: int,
    folder: Path,
    validate: Validate,
    keep_best: Callable[[Model], None],
    say: Say,
    world: World,
) -> Place:
    """Train until the updates are done, validation stops improving, or a signal asks to end; give the place reached.

    `width` is d_model, for the learning rate. `folder` gets log.jsonl and checkpoints/; what is there already is gone on from.
    `keep_best` is called whenever validation finds a better model. Raises `DragomanError` where the loss is no number, unless
    the settings say to skip such updates or to roll back.
    """
    pace = None
    while True:
        model.zero_grad()
        optimizer = make_optimizer(model)
        place = resume(model, optimizer, folder, say, world)
        place = replace(place, pace=pace or place.pace)
        try:
            return _train(model, optimizer, place, batches, settings, schedule, width, folder, validate, keep_best, say, world)
        except DivergenceError as error:
            found = checkpoints(folder)
            if settings.on_divergence != "rollback" or not found or place.pace <= LEAST_PACE:
                raise
            pace = place.pace / 2
            say(f"{error} Rolled back to {found[-1].name}, with {pace:g} of the rate.")


def _train(
    model: Model,
    optimizer: torch.optim.Adam,
    place: Place,
    batches: Batches,
    settings: TrainingSettings,
    schedule: Schedule,
    width: int,
    folder: Path,
    validate: Validate,
    keep_best: Callable[[Model], None],
    say: Say,
    world: World,
) -> Place:
    """`train` from a place on, up to the first divergence."""
    objective = Objective(model, settings.label_smoothing, schedule.bfloat16).train()
    together = synchronised(objective, world)
    recent = Recent(settings, objective, batches, folder, place, say, world)
    updates = ahead(batches.after(place.epoch, place.batches_done), world.device)
    with stop_signals() as asked, progress_bar(schedule.updates, place.step, world.leads) as advance, closing(updates):
        while place.step < schedule.updates and not stopped_early(place, settings, schedule):
            update, step = next(updates), place.step + 1
            seed_update(settings.seed, step, world.rank)
            sums = accumulate(together, update, world)
            told = step % settings.log_every == 0
            layers = layer_norms(model) if told else {}
            rate = place.pace * settings.rate_scale * learning_rate(step, width, schedule.warmup_steps)
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
                scores, samples = validate(model)
                recent.write("validation", step, {"minutes": place.seconds / 60, **scores, "samples": samples})
                if place.best is None or better(scores, place.best, settings.best_by):
                    place, saves = replace(place, best=scores, best_step=step), True  # no rollback parts the best model from its place
                    if world.leads:
                        keep_best(model)
                recent.go_on()
            stopping = world.any(asked()) if told or world.size == 1 else False
            if saves or stopping or step == schedule.updates or stopped_early(place, settings, schedule):
                recent.tell()
                if world.leads:
                    save(model, optimizer, place, folder, settings.average, schedule.checkpoint_every)
                recent.go_on()
            if stopping:
                break
    world.wait()
    return place


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


def layer_norms(model: nn.Module) -> dict[str, Tensor]:
    """The norm of the gradient of each layer: of `encoder.0`, `target_embedding` and so on."""
    layers: dict[str, list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            layers.setdefault(LAYER.sub(r"\1", name), []).append(weight.grad)
    return {name: nn.utils.get_total_norm(gradients) for name, gradients in layers.items()}


def better(scores: dict[str, float], best: dict[str, float], by: str) -> bool:
    """Whether validation has improved: BLEU rises, or the loss falls; for the same BLEU the loss decides."""
    if by == "bleu" and scores["bleu"] != best["bleu"]:
        return scores["bleu"] > best["bleu"]
    return scores["loss"] < best["loss"]


def stopped_early(place: Place, settings: TrainingSettings, schedule: Schedule) -> bool:
    """Whether the last `patience` validations were no better than the best."""
    validations = place.step // schedule.validate_every - place.best_step // schedule.validate_every
    return 0 < settings.patience <= validations


class Recent:
    """The updates since the last line of the log. Their numbers stay on the device until the line is written: no update waits."""

    def __init__(
        self, settings: TrainingSettings, objective: Objective, batches: Batches, folder: Path, place: Place, say: Say, world: World
    ) -> None:
        self.settings, self.objective, self.corpus, self.say, self.world = settings, objective, batches.corpus, say, world
        self.log = Log(folder, place.step, settings.tensorboard) if world.leads else None
        self.updates: list[tuple[int, Update, Tensor, float]] = []
        self.bad_in_succession = 0
        self._before, self._started, self._told = place.seconds, time.monotonic(), time.monotonic()

    @property
    def seconds(self) -> float:
        """How long training has taken, that of earlier processes included."""
        return self._before + time.monotonic() - self._started

    def go_on(self) -> None:
        """Count the time from here: what passed since the last line belongs to no update."""
        self._told = time.monotonic()

    def write(self, event: str, step: int, values: Mapping[str, object]) -> None:
        """Add a line to the log, if it is this process that does."""
        if self.log is not None:
            self.log.write(event, step, values)

    def add(self, step: int, update: Update, sums: Tensor, norm: Tensor, rate: float) -> None:
        """Remember an update: its loss and likelihood, and the norm of its gradient."""
        self.updates.append((step, update, torch.stack([*sums, norm.double()]), rate))

    def tell(self, layers: Mapping[str, Tensor] | None = None) -> None:
        """Write the updates since the last line as one: sums of tokens and seconds, means weighted by tokens of the losses.

        Raises `DivergenceError` where one of them was no number, unless the settings say to skip it.
        """
        if not self.updates:
            return
        told, self.updates = self.updates, []
        values = torch.stack([values for _, _, values, _ in told])
        norms = values[:, 2].tolist()
        sums = self.world.sum(values[:, :2].contiguous()).cpu()
        good = [number for number, norm in enumerate(norms) if math.isfinite(norm)]
        for number, norm in enumerate(norms):
            self.bad_in_succession = 0 if number in good else self.bad_in_succession + 1
            if number not in good:
                self._bad(*told[number][:2], float(sums[number, 0]), norm)
        seconds = time.monotonic() - self._told
        self._told += seconds
        if not good:
            return
        step, update, _, rate = told[good[-1]]
        tokens = sum(told[number][1].tokens for number in good)
        loss, nll = (sums[good].sum(0) / tokens).tolist()
        line = {"epoch": update.epoch, "loss": loss, "nll": nll, "tokens": tokens, "seconds": seconds}
        line |= {"gradient_norm": norms[good[-1]], "learning_rate": rate, "tokens_per_second": tokens / seconds}
        table = {} if not layers or len(told) - 1 not in good else {"gradient_norms": {name: float(norm) for name, norm in layers.items()}}
        self.write("train", step, line | table)

    def _bad(self, step: int, update: Update, loss: float, norm: float) -> None:
        """Name an update that was left out because it was no number, and raise `DivergenceError` unless such ones are skipped."""
        seed_update(self.settings.seed, step, self.world.rank)
        places = self.world.join([" of the training text. ".join(self._where(update))], self.world.size)
        found = [place for place in places if "First to be no number" in place] or places
        what = (
            f"In step {step} (epoch {update.epoch}, batch {update.batches_done}) the loss is {loss:g} and the norm of the gradient "
            f"{norm:g}, in lines {found[0]} "
        )
        if self.settings.on_divergence == "skip" and self.bad_in_succession < MOST_BAD:
            self.say(f"{what}The update is left out.")
            self.write("skipped", step, {"message": what})
            return
        raise DivergenceError(
            f"{what}The weights were not changed by it, and the last checkpoint is whole. Give the same command a lower --rate-scale, a "
            "--clip-norm or another --on-divergence, or look at these lines."
        )

    def _where(self, update: Update) -> tuple[str, str]:
        """The lines of this process's part of an update, and the layer that is first to give no number."""
        lines = sorted(self.corpus.line(pair) for batch in update.batches for pair in batch.pairs)
        shown = ", ".join(map(str, lines[:8])) + (f" and {len(lines) - 8} more" if len(lines) > 8 else "")
        try:
            layers = [layer for batch in update.batches if (layer := first_bad_layer(self.objective, batch.to(self.world.device)))]
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return shown, "The memory does not suffice to look for the layer."
        return shown, f"First to be no number is {layers[0]}." if layers else "With the weights of now it does not happen again."


# ---- checkpoints: `folder/checkpoints/step-00001200/`


def checkpoints(folder: Path) -> list[Path]:
    """The folders of a run's checkpoints, oldest first."""
    return sorted(path for path in (folder / "checkpoints").glob("step-*") if path.suffix == "")


def save(model: Model, optimizer: torch.optim.Optimizer, place: Place, folder: Path, keep: int, every: int) -> None:
    """Write a checkpoint and delete those that are no longer needed: for resuming the newest, for averaging the last regular ones."""

    def write(new: Path) -> None:
        checkpoint.save_tensors(new / "model.safetensors", checkpoint.weights(model))
        checkpoint.save_tensors(new / "optimizer.safetensors", checkpoint.optimizer_tensors(model, optimizer))
        (new / "place.json").write_text(json.dumps(asdict(place), indent=2) + "\n")

    checkpoint.write_folder(folder / "checkpoints" / f"step-{place.step:08}", write)
    kept = regular(folder, keep, every, place.step)
    for path in (folder / "checkpoints").iterdir():
        if path not in kept:
            shutil.rmtree(path, ignore_errors=True)


def regular(folder: Path, last: int, every: int, step: int) -> list[Path]:
    """The checkpoint of a step, and before it regular ones (not those that a signal asked for), `last` in all.

    There are later ones only where they were damaged, and the run went on from before them.
    """
    *older, newest = [path for path in checkpoints(folder) if step_of(path) <= step]
    older = [path for path in older if step_of(path) % every == 0]
    return [*older[max(0, len(older) - last + 1) :], newest]


def step_of(path: Path) -> int:
    """The step of a checkpoint's folder."""
    return int(path.name.removeprefix("step-"))


def resume(model: Model, optimizer: torch.optim.Optimizer, folder: Path, say: Say, world: World) -> Place:
    """Load the newest checkpoint that is whole, if there is one; say so where it is not the newest of all.

    Raises `DragomanError` where there are checkpoints, and none of them is whole, and where processes find different ones.
    """
    place = newest_whole(model, optimizer, folder, say)
    if float(world.sum(torch.tensor(float(place.step), device=world.device))) != place.step * world.size:
        raise DragomanError(
            f"This process found the checkpoint of step {place.step} in {folder}, and another process another one. All machines have to "
            "see the same folder."
        )
    return place


def newest_whole(model: Model, optimizer: torch.optim.Optimizer, folder: Path, say: Say) -> Place:
    """`resume`, for one process."""
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            checkpoint.check_folder(path)
            checkpoint.load_weights(model, checkpoint.load_tensors(path / "model.safetensors"), path)
            checkpoint.load_optimizer(model, optimizer, checkpoint.load_tensors(path / "optimizer.safetensors"))
            place = Place(**json.loads((path / "place.json").read_text()))
        except DragomanError as error:
            say(f"{error} Trying the checkpoint before it.")
            continue
        if path != found[-1]:
            say(f"Going on from {path.name}; what was done after it is done again.")
        return place
    if found:
        raise DragomanError(f"None of the {len(found)} checkpoints in {folder / 'checkpoints'} is whole; begin again with another --out.")
    return Place()


def averaged(folder: Path, last: int, every: int, step: int, say: Say) -> tuple[dict[str, Tensor], list[int]]:
    """The mean of the last n regular checkpoints up to a step, and their steps (section 6.1); without damaged ones, which are named."""
    paths = []
    for path in regular(folder, last, every, step):
        try:
            checkpoint.check_folder(path)
        except DragomanError as error:
            say(f"{error} It is left out of the average.")
        else:
            paths.append(path)
    return checkpoint.average(path / "model.safetensors" for path in paths), [step_of(path) for path in paths]


# ---- signals


@contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C and SIGTERM end training after the current update; gives the function that says whether one came."""
    asked: list[int] = []

    def ask(number: int, _: FrameType | None) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    former = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # outside the main thread there are no signals to handle
            former[number] = signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
