"""The training loop (section 5), to be read downwards, and what it needs to go on after any interruption."""

import json
import math
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from types import FrameType

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn

from dragoman.errors import DragomanError
from dragoman.model.contract import Model
from dragoman.model.loss import cross_entropy
from dragoman.model.symbols import PAD
from dragoman.text.batches import Batch, Batches
from dragoman.training import checkpoint
from dragoman.training.schedule import learning_rate
from dragoman.training.settings import TrainingSettings

Validate = Callable[[Model], dict[str, float]]


@dataclass(frozen=True)
class Schedule:
    """The numbers of a run that a recipe may leave open, chosen: all but the two flags in updates."""

    updates: int
    warmup_steps: int
    validate_every: int
    checkpoint_every: int
    bfloat16: bool


@dataclass(frozen=True)
class Place:
    """How far a run has come: with weights, optimizer and random state, all that the rest of it depends on."""

    step: int = 0
    epoch: int = 0
    batches_done: int = 0
    best_step: int = 0
    best: dict[str, float] | None = None
    seconds: float = 0.0


def batch_loss(model: Model, batch: Batch, smoothing: float, bfloat16: bool) -> tuple[Tensor, Tensor]:
    """Smoothed loss and negative log-likelihood, in nats, summed over the batch's target tokens without padding."""
    with torch.autocast(batch.source.device.type, torch.bfloat16, enabled=bfloat16):
        features, _ = model.decode(batch.target_in, model.encode(batch.source))
        real = batch.target_out != PAD
        return cross_entropy(model.logits(features[real]), batch.target_out[real], smoothing)


@torch.no_grad()
def corpus_loss(model: Model, batches: list[Batch], smoothing: float, bfloat16: bool) -> dict[str, float]:
    """Validation: smoothed loss, negative log-likelihood (both a token) and perplexity. Evaluation mode, then back."""
    training = model.training
    model.eval()
    device = next(model.parameters()).device
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    for batch in batches:
        sums += torch.stack(batch_loss(model, batch.to(device), smoothing, bfloat16))
    model.train(training)
    loss, nll = (sums / sum(batch.tokens for batch in batches)).tolist()
    return {"loss": loss, "nll": nll, "perplexity": math.exp(min(nll, 700))}


def accumulate(model: Model, batches: list[Batch], smoothing: float, bfloat16: bool) -> tuple[float, float, int]:
    """Add the gradient of the mean loss over all tokens of the batches; give loss and likelihood (sums), and the tokens."""
    tokens = sum(batch.tokens for batch in batches)
    sums = []
    for batch in batches:
        loss, nll = batch_loss(model, batch.to(next(model.parameters()).device), smoothing, bfloat16)
        (loss / tokens).backward()
        sums.append(torch.stack([loss.detach(), nll]))
    loss_sum, nll_sum = torch.stack(sums).sum(0).tolist()
    return loss_sum, nll_sum, tokens


def make_optimizer(model: nn.Module) -> torch.optim.Adam:
    """Adam with the paper's constants (section 5.3)."""
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)


def train(
    model: Model,
    batches: Batches,
    settings: TrainingSettings,
    schedule: Schedule,
    width: int,
    folder: Path,
    validate: Validate,
    keep_best: Callable[[Model], None],
    accumulate_batches: int = 1,
) -> Place:
    """Train until the updates are done, validation stops improving, or a signal asks to end; give the place reached.

    `width` is d_model, for the learning rate. `folder` gets log.jsonl and checkpoints/; what is there already is gone on from.
    `keep_best` is called whenever validation finds a better model. Raises `DragomanError` where the loss is no number.
    """
    optimizer = make_optimizer(model)
    place = resume(model, optimizer, folder)
    stream = batches.after(place.epoch, place.batches_done)
    log = Log(folder, place.step, settings.tensorboard)
    model.train()
    started, seconds_before = time.monotonic(), place.seconds
    with stop_signals() as stop, progress_bar(schedule.updates, place.step) as advance:
        while place.step < schedule.updates and not stopped_early(place, settings, schedule):
            step_started = time.monotonic()
            update = list(islice(stream, accumulate_batches))
            step = place.step + 1
            for group in optimizer.param_groups:
                group["lr"] = settings.rate_scale * learning_rate(step, width, schedule.warmup_steps)
            loss, nll, tokens = accumulate(model, [batch for *_, batch in update], settings.label_smoothing, schedule.bfloat16)
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm or math.inf))
            check_finite(loss, norm, step, update)
            optimizer.step()
            optimizer.zero_grad()
            now = time.monotonic()
            place = replace(place, step=step, epoch=update[-1][0], batches_done=update[-1][1], seconds=seconds_before + now - started)
            log.update(place, loss / tokens, nll / tokens, tokens, now - step_started, norm, optimizer.param_groups[0]["lr"])
            advance(tokens)
            if step % settings.log_every == 0:
                log.write()
            if step % schedule.validate_every == 0 or step == schedule.updates:
                scores = validate(model)
                log.validation(place, scores)
                if place.best is None or better(scores, place.best, settings.best_by):
                    place = replace(place, best=scores, best_step=step)
                    keep_best(model)
            stopping = stop()
            ending = stopping or step == schedule.updates or stopped_early(place, settings, schedule)
            if ending or step % schedule.checkpoint_every == 0:
                save(model, optimizer, place, folder, settings.average, schedule.checkpoint_every)
            if stopping:
                break
    log.write()
    return place


def better(scores: dict[str, float], best: dict[str, float], by: str) -> bool:
    """Whether validation has improved: BLEU rises, or the loss falls; for the same BLEU the loss decides."""
    if by == "bleu" and scores["bleu"] != best["bleu"]:
        return scores["bleu"] > best["bleu"]
    return scores["loss"] < best["loss"]


def stopped_early(place: Place, settings: TrainingSettings, schedule: Schedule) -> bool:
    """Whether the last `patience` validations were no better than the best."""
    validations = place.step // schedule.validate_every - place.best_step // schedule.validate_every
    return 0 < settings.patience <= validations


def check_finite(loss: float, norm: float, step: int, update: list[tuple[int, int, Batch]]) -> None:
    """Raises `DragomanError` where the loss or the gradient's norm is not a number, naming where: before weights are changed."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        pairs = [pair for *_, batch in update for pair in batch.pairs]
        raise DragomanError(
            f"In step {step} the loss is {loss} and the norm of the gradient {norm}, in pairs {min(pairs)} to {max(pairs)} of the corpus. "
            "The last checkpoint is whole. Lower rate_scale, set clip_norm, or look at these pairs."
        )


# ---- checkpoints: `folder/checkpoints/step-00001200/`


def checkpoints(folder: Path) -> list[Path]:
    """The folders of a run's checkpoints, oldest first."""
    return sorted(path for path in (folder / "checkpoints").glob("step-*") if path.suffix == "")


def save(model: Model, optimizer: torch.optim.Optimizer, place: Place, folder: Path, keep: int, every: int) -> None:
    """Write a checkpoint and delete those that are no longer needed: for resuming the newest, for averaging the last regular ones."""

    def write(new: Path) -> None:
        checkpoint.save_tensors(new / "model.safetensors", checkpoint.weights(model))
        checkpoint.save_tensors(new / "optimizer.safetensors", checkpoint.optimizer_tensors(model, optimizer))
        states = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            states["cuda"] = torch.cuda.get_rng_state()
        checkpoint.save_tensors(new / "random.safetensors", states)
        (new / "place.json").write_text(json.dumps(asdict(place), indent=2) + "\n")

    checkpoint.write_folder(folder / "checkpoints" / f"step-{place.step:08}", write)
    kept = regular(folder, keep, every)
    for path in (folder / "checkpoints").iterdir():
        if path not in kept:
            shutil.rmtree(path)


def regular(folder: Path, last: int, every: int) -> list[Path]:
    """The newest checkpoint, and before it regular ones (not those that a signal asked for), `last` in all."""
    *older, newest = checkpoints(folder)
    older = [path for path in older if int(path.name[5:]) % every == 0]
    return [*older[max(0, len(older) - last + 1) :], newest]


def resume(model: Model, optimizer: torch.optim.Optimizer, folder: Path) -> Place:
    """Load the newest checkpoint, if there is one. Raises `DragomanError` where it is damaged."""
    found = checkpoints(folder)
    if not found:
        return Place()
    newest = found[-1]
    checkpoint.check_folder(newest)
    checkpoint.load_weights(model, checkpoint.load_tensors(newest / "model.safetensors"), newest)
    checkpoint.load_optimizer(model, optimizer, checkpoint.load_tensors(newest / "optimizer.safetensors"))
    states = checkpoint.load_tensors(newest / "random.safetensors")
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    return Place(**json.loads((newest / "place.json").read_text()))


def averaged(folder: Path, last: int, every: int) -> tuple[dict[str, Tensor], list[int]]:
    """The mean of the last n regular checkpoints, and their steps (section 6.1)."""
    paths = regular(folder, last, every)
    return checkpoint.average(path / "model.safetensors" for path in paths), [int(path.name[5:]) for path in paths]


# ---- what people see


class Log:
    """log.jsonl: a line every few updates and one a validation. After a resume it goes on from the step of the checkpoint."""

    def __init__(self, folder: Path, step: int, tensorboard: bool) -> None:
        self.path = folder / "log.jsonl"
        lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
        trimmed = self.path.with_suffix(".new")
        trimmed.write_text("".join(kept))
        trimmed.replace(self.path)
        self.rows: list[dict[str, float]] = []
        self.board = None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise DragomanError("TensorBoard is not installed: pip install dragoman[tensorboard]") from error
            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def update(self, place: Place, loss: float, nll: float, tokens: int, seconds: float, norm: float, rate: float) -> None:
        """Remember an update."""
        self.rows.append(
            {"step": place.step, "epoch": place.epoch, "loss": loss, "nll": nll, "tokens": tokens, "seconds": seconds}
            | {"gradient_norm": norm, "learning_rate": rate}
        )

    def write(self) -> None:
        """Write the updates since the last line as one: sums of tokens and seconds, means weighted by tokens of the losses."""
        if not self.rows:
            return
        tokens = sum(row["tokens"] for row in self.rows)
        seconds = sum(row["seconds"] for row in self.rows)
        means = {key: sum(row[key] * row["tokens"] for row in self.rows) / tokens for key in ("loss", "nll")}
        line = self.rows[-1] | means | {"tokens": tokens, "seconds": seconds, "tokens_per_second": tokens / seconds}
        self.rows.clear()
        self._append({"event": "train", **line})

    def validation(self, place: Place, scores: dict[str, float]) -> None:
        """Write what validation found."""
        self.write()
        self._append({"event": "validation", "step": place.step, "epoch": place.epoch, "minutes": place.seconds / 60, **scores})

    def _append(self, line: Mapping[str, float | str]) -> None:
        rounded = {key: round(value, 6) if isinstance(value, float) else value for key, value in line.items()}
        with self.path.open("a") as file:
            file.write(json.dumps(rounded) + "\n")
        if self.board is not None:
            for key, value in line.items():
                if not isinstance(value, str) and key != "step":
                    self.board.add_scalar(f"{line['event']}/{key}", value, line["step"])
            self.board.flush()


@contextmanager
def progress_bar(updates: int, done: int) -> Iterator[Callable[[int], None]]:
    """A bar with tokens a second and the time that remains, on a terminal; gives the function to call after each update."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=updates, completed=done, speed="")
        total, started = 0, time.monotonic()

        def advance(tokens: int) -> None:
            nonlocal total
            total += tokens
            speed = total / (time.monotonic() - started)
            progress.update(task, advance=1, speed=f"updates, {speed:,.0f} target tokens/s")

        yield advance


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
