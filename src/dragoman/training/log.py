"""What users see of a training: log.jsonl, TensorBoard, a progress bar."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write

NO_TENSORBOARD = "TensorBoard is not installed: pip install 'dragoman[tensorboard]'"


class Log:
    """log.jsonl: a line every few updates and a line for each validation.

    A resumed run continues after its checkpoint's step.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool) -> None:
        """Drop lines after `step`. Raises `DragomanError` if TensorBoard is asked for and not installed."""
        self.path = folder / "log.jsonl"
        with atomic_write(self.path) as new:
            lines = (f"{json.dumps(event)}\n" for event in read_events(self.path) if event["step"] <= step)
            new.write_text("".join(lines))
        self.board = None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise DragomanError(NO_TENSORBOARD) from error
            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a line.

        TensorBoard gets its numbers, also those of a table in it, as curves, and lists as texts. Raises
        `DragomanError` if the disk is full or cannot be written to.
        """
        path = self.path
        try:
            with path.open("a") as file:
                file.write(json.dumps({"event": event, "step": step, **rounded(values)}) + "\n")
            path = self.path.with_name("tensorboard")
            self._write_board(event, step, values)
        except OSError as error:
            raise DragomanError(
                f"{path} could not be written: {error.strerror}. The checkpoints before it are intact: free "
                "some space, then resume with the same command."
            ) from error

    def _write_board(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """The same for TensorBoard. `flush` waits for the thread that writes, and raises its errors."""
        if self.board is None:
            return
        for name, value in scalars(values).items():
            self.board.add_scalar(f"{event}/{name}", value, step)
        for name, rows in values.items():
            if isinstance(rows, list):
                self.board.add_text(
                    f"{event}/{name}", "\n\n".join(" · ".join(row.values()) for row in rows), step
                )
        self.board.flush()


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a log, none if there is no log.

    Incomplete lines, as an interruption leaves them, are ignored.
    """
    events = []
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        with suppress(ValueError):
            event = json.loads(line)
            if (
                line.endswith(b"\n")
                and isinstance(event, dict)
                and "event" in event
                and isinstance(event.get("step"), int)
            ):
                events.append(event)
    return events


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with six decimals, in tables within them too."""
    pairs = ((key, rounded(value) if isinstance(value, Mapping) else value) for key, value in values.items())
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in pairs}


def scalars(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among the values; those of a table are named `table/name`."""
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float)}
    for key, table in values.items():
        if isinstance(table, Mapping):
            numbers |= {f"{key}/{name}": value for name, value in scalars(table).items()}
    return numbers


@contextmanager
def progress_bar(updates: int, done: int, visible: bool) -> Iterator[Callable[[int], None]]:
    """A bar with tokens a second and the remaining time, on a terminal.

    Yields the function to call after each update.
    """
    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    if not (visible and bar.console.is_terminal):
        yield lambda _: None
        return
    with bar as progress:
        task = progress.add_task("", total=updates, completed=done, speed="")
        total, started = 0, time.monotonic()

        def advance(tokens: int) -> None:
            nonlocal total
            total += tokens
            speed = total / (time.monotonic() - started)
            progress.update(task, advance=1, speed=f"updates, {speed:,.0f} target tokens/s")

        yield advance
