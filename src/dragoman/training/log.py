"""What people see of a training: log.jsonl, TensorBoard, a bar."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write

NO_TENSORBOARD = "TensorBoard is not installed: pip install 'dragoman[tensorboard]'"


class Log:
    """log.jsonl: a line every few updates and one a validation.

    After a resume it goes on from the step of the checkpoint. Raises `DragomanError` where TensorBoard is wanted and missing.
    """

    def __init__(self, folder: Path, step: int, tensorboard: bool) -> None:
        self.path = folder / "log.jsonl"
        with atomic_write(self.path) as new:
            new.write_text("".join(f"{json.dumps(event)}\n" for event in events(self.path) if event["step"] <= step))
        self.board = None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise DragomanError(NO_TENSORBOARD) from error
            self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a line. Numbers in it, also those in a table of it, become TensorBoard's curves, and texts its texts.

        Raises `DragomanError` where the disk is full or refuses to be written.
        """
        path = self.path
        try:
            with path.open("a") as file:
                file.write(json.dumps({"event": event, "step": step, **rounded(values)}) + "\n")
            path = self.path.with_name("tensorboard")
            self._draw(event, step, values)
        except OSError as error:
            raise DragomanError(
                f"{path} could not be written: {error.strerror}. The checkpoints before it are whole; make room, then go on with the "
                "same command."
            ) from error

    def _draw(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """The same for TensorBoard, whose thread writes it: `flush` waits for that, and raises what it could not do."""
        if self.board is None:
            return
        for name, value in curves(values).items():
            self.board.add_scalar(f"{event}/{name}", value, step)
        for name, text in values.items():
            if isinstance(text, list):
                self.board.add_text(f"{event}/{name}", "\n\n".join(" · ".join(row.values()) for row in text), step)
        self.board.flush()


def events(path: Path) -> list[dict[str, Any]]:
    """The events of a log, if there is one, without lines that are not whole: that is being written, or was when the machine went down."""
    found = []
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        with suppress(ValueError):
            event = json.loads(line)
            if line.endswith(b"\n") and isinstance(event, dict) and "event" in event and isinstance(event.get("step"), int):
                found.append(event)
    return found


def rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values with six digits after the point, in tables within them too."""
    pairs = ((key, rounded(value) if isinstance(value, Mapping) else value) for key, value in values.items())
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in pairs}


def curves(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among the values; those of a table under names like `table/name`."""
    found = {key: value for key, value in values.items() if isinstance(value, int | float)}
    for key, table in values.items():
        if isinstance(table, Mapping):
            found |= {f"{key}/{name}": value for name, value in curves(table).items()}
    return found


@contextmanager
def progress_bar(updates: int, done: int, visible: bool) -> Iterator[Callable[[int], None]]:
    """A bar with tokens a second and the time that remains, on a terminal; gives the function to call after each update."""
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
