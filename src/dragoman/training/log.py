"""What users see of a training: log.jsonl with the metrics of updates, and a progress bar."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.system.readers import open_file, parse_json, require_regular
from dragoman.system.terminal import shows_bars
from dragoman.system.wording import shown
from dragoman.text.batches import Update
from dragoman.training.context import TrainingContext
from dragoman.training.events import LogEvent, Observer

MAX_LINE = 2**24  # bytes of an event
MAX_STEP = 10**9  # updates
NUMBERS = {"epoch", "loss", "nll", "perplexity", "bleu", "replay_bleu", "minutes", "seconds", "tokens"}
NUMBERS |= {"gradient_norm", "learning_rate", "tokens_per_second"}  # of events, by which they are used


class Log:
    """log.jsonl: a line every few updates and a line for each validation.

    A resumed run continues after its checkpoint's step.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool, observer: Observer | None = None) -> None:
        """Drop lines after `step`. Raises `DragomanError` if TensorBoard is asked for and not installed."""
        self.path, self.observer = folder / "log.jsonl", observer or Observer()
        lines = [json.dumps(event) for event in read_events(self.path) if event["step"] <= step]
        write_lines(self.path, lines)
        self.board = None
        if tensorboard:
            from dragoman.training.tensorboard import Board

            self.board = Board(folder / "tensorboard", step)

    def write(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a line, and tell the observer. Raises `DragomanError` if the disk is full or not writable."""
        path, line = self.path, {"event": event, "step": step, **rounded(values)}
        try:
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            if self.board is not None:
                path = self.path.with_name("tensorboard")
                self.board.write(event, step, values)
        except OSError as error:
            raise DragomanError(
                f"{path} could not be written: {error.strerror}. The checkpoints before it are intact: free "
                "some space if the disk is full, then resume with the same command."
            ) from error
        self.observer.tell(cast("LogEvent", line))


def new_log(context: TrainingContext, step: int) -> Log:
    """The log of a training. Raises as `Log`."""
    return Log(context.folder, step, context.settings.tensorboard, context.observer)


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a log, none if there is no log.

    Lines that are not events, as an interruption leaves them, are ignored. Raises `DragomanError` with the
    file's name if it cannot be read, has a line of `MAX_LINE` bytes, or a value that no event has.
    """
    if not path.exists():
        return []
    require_regular(path)
    events = []
    with open_file(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
            if len(line) == MAX_LINE:
                raise DragomanError(f"{path}, line {number}, has {MAX_LINE:,} bytes or more; it is damaged.")
            if (event := event_of(line)) is not None:
                check_event(event, f"{path}, line {number}")
                events.append(event)
    return events


def event_of(line: bytes) -> dict[str, Any] | None:
    """The event of a complete line of a log; None for what is none."""
    try:
        event = parse_json(line.decode(), "the line", is_finite=False)
    except ValueError:
        return None
    is_event = isinstance(event, dict) and isinstance(event.get("event"), str)
    return event if is_event and line.endswith(b"\n") and type(event.get("step")) is int else None


def check_event(event: Mapping[str, Any], place: str) -> None:
    """Raise `DragomanError` with the place if a value of an event is of another type than is written."""
    if not 0 <= event["step"] <= MAX_STEP:
        raise DragomanError(f"{place}: the step is {event['step']}; it has to be a number of updates.")
    for name in NUMBERS & event.keys():
        if type(event[name]) not in (int, float):
            raise DragomanError(f"{place}: {name} is {shown(event[name])}; it has to be a number.")


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with seven significant digits, in tables within them too."""
    pairs = ((key, rounded(value) if isinstance(value, Mapping) else value) for key, value in values.items())
    return {key: float(f"{value:.7g}") if isinstance(value, float) else value for key, value in pairs}


class UpdateMetrics:
    """Loss, gradient norm and speed of the updates since the last line of the log.

    They stay on the device until the line is written, so that no update waits for the device.
    """

    def __init__(
        self, context: TrainingContext, full_model: Callable[[], Model], step: int, seconds: float
    ) -> None:
        """`step` and `seconds` are those of the state that training begins from."""
        self.context, self.world, self.full_model = context, context.world, full_model
        self.log = new_log(context, step) if self.world.is_main else None
        self.updates: list[tuple[int, Update, Tensor, float]] = []
        self.consecutive_non_finite = 0
        self._last_line = time.monotonic()
        self._started = self._last_line - seconds

    @property
    def seconds(self) -> float:
        """The duration of training, including that of earlier processes."""
        return time.monotonic() - self._started

    def time_at(self, seconds: float) -> float:
        """When the training will have taken so many seconds, as a time of the monotonic clock."""
        return self._started + seconds

    def restart_clock(self) -> None:
        """Exclude the time since the last line, spent on validation or a checkpoint, from the next one."""
        self._last_line = time.monotonic()

    def write(self, event: str, step: int, values: Mapping[str, object]) -> None:
        """Add a line to the log, in the main process."""
        if self.log is not None:
            self.log.write(event, step, values)

    def add(self, step: int, update: Update, sums: Tensor, norm: Tensor, rate: float) -> None:
        """Add an update: its [loss, nll] summed over tokens, its gradient norm and its learning rate."""
        self.updates.append((step, update, torch.stack([*sums, norm.double()]), rate))

    def flush(self, norms_by_layer: Mapping[str, Tensor] | None = None) -> None:
        """Write the updates since the last line as one line: sums of tokens and seconds, losses per token.

        `norms_by_layer` are the gradient norms of the last update.
        Raises `DivergenceError` if an update is NaN or infinite, unless the settings say to skip it.
        """
        if not self.updates:
            return
        updates, self.updates = self.updates, []
        values = torch.stack([values for _, _, values, _ in updates])
        norms = values[:, 2].tolist()
        sums = self.world.all_reduce(values[:, :2].contiguous()).cpu()
        seconds = time.monotonic() - self._last_line
        finite = [number for number, norm in enumerate(norms) if math.isfinite(norm)]
        for number, norm in enumerate(norms):
            self.consecutive_non_finite = 0 if number in finite else self.consecutive_non_finite + 1
            if number not in finite:
                self._report_non_finite(*updates[number][:2], float(sums[number, 0]), norm)
        self.restart_clock()  # a search for what is not finite takes time, too
        if not finite:
            return
        step, update, _, rate = updates[finite[-1]]
        tokens = sum(updates[number][1].tokens for number in finite)
        loss, nll = (sums[finite].sum(0) / tokens).tolist()
        line = {
            "epoch": update.epoch,
            "loss": loss,
            "nll": nll,
            "tokens": tokens,
            "seconds": seconds,
            "gradient_norm": norms[finite[-1]],
            "learning_rate": rate,
            "tokens_per_second": tokens / seconds,
        }
        if norms_by_layer and len(updates) - 1 in finite:
            line["gradient_norms"] = {name: float(norm) for name, norm in norms_by_layer.items()}
        self.write("train", step, line)

    def _report_non_finite(self, step: int, update: Update, loss: float, norm: float) -> None:
        """Log a skipped update, or raise `DivergenceError`."""
        from dragoman.training.divergence import skip_or_raise

        values = f"the loss is {loss:g} and the gradient norm {norm:g}"
        message = skip_or_raise(
            self.context, self.full_model(), step, update, values, self.consecutive_non_finite
        )
        self.write("skipped", step, {"message": message})


@contextmanager
def progress_bar(
    updates: int, planned_seconds: float, visible: bool
) -> Iterator[Callable[[int, float, int], None]]:
    """A bar with the remaining time, the updates done and tokens per second, as `shows_bars`.

    The training ends after `planned_seconds`, if that is finite, and after so many `updates` otherwise.
    Yields the function to call after each update with its number, the seconds so far and its tokens.
    """
    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    if not (visible and shows_bars(bar.console)):
        yield lambda *_: None
        return
    with bar as progress:
        task = progress.add_task("")
        points: list[tuple[int, float]] = []
        total, started = 0, time.monotonic()

        def advance(step: int, seconds: float, tokens: int) -> None:
            nonlocal total
            total += tokens
            points.append((step, seconds))
            remaining = planned_seconds - seconds
            suffix = ""
            if math.isinf(remaining):
                remaining, suffix = seconds_left(points, updates), f" of {updates:,}"
            speed = f"{total / (time.monotonic() - started):,.0f} target tokens/s"
            text = f"{timedelta(seconds=max(0, round(remaining)))} left, update {step:,}{suffix}, {speed}"
            progress.update(task, completed=seconds, total=seconds + remaining, description=text)

        yield advance


def seconds_left(points: Sequence[tuple[int, float]], updates: int) -> float:
    """The time until so many updates are done, at the speed of the second half of the points.

    A point has the number of an update and the seconds until its end. The first half is left out because
    kernels are compiled during it.
    """
    (step, seconds), (before, seconds_before) = points[-1], points[(len(points) - 1) // 2]
    if step == before:  # a single point
        return seconds * (updates - step) / step
    return (seconds - seconds_before) * (updates - step) / (step - before)
