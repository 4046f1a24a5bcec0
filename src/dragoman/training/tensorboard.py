"""The log as curves and texts for TensorBoard (`--tensorboard`)."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dragoman.system.errors import DragomanError

NO_TENSORBOARD = "TensorBoard is not installed: pip install 'dragoman[tensorboard]'"


def refuse_missing_tensorboard() -> None:
    """Raise `DragomanError` if TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise DragomanError(NO_TENSORBOARD)


class Board:
    """Writes the log of a run into a folder of TensorBoard."""

    def __init__(self, folder: Path, step: int) -> None:
        """Hide what is after `step`. Raises `DragomanError` if TensorBoard is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise DragomanError(NO_TENSORBOARD) from error
        self.writer = SummaryWriter(str(folder), purge_step=step + 1)

    def write(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Write numbers, also those in nested tables, as scalars, and lists as text."""
        for name, value in scalars(values).items():
            self.writer.add_scalar(f"{event}/{name}", value, step)
        for name, rows in values.items():
            if isinstance(rows, list):
                text = "\n\n".join(" · ".join(row.values()) for row in rows)
                self.writer.add_text(f"{event}/{name}", text, step)
        self.writer.flush()


def scalars(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among the values; those of a table are named `table/name`."""
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float)}
    for key, table in values.items():
        if isinstance(table, Mapping):
            numbers |= {f"{key}/{name}": value for name, value in scalars(table).items()}
    return numbers
