"""Loss, gradient norm and speed of the updates, from the device to the log; non-finite updates."""

import math
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Update
from dragoman.training.checkpoint import TrainingState
from dragoman.training.context import TrainingContext
from dragoman.training.log import Log

MAX_NON_FINITE = 20  # updates in succession that are NaN or infinite end the run


class DivergenceError(DragomanError):
    """The loss, the gradient or the weights are NaN or infinite."""

    def __init__(self, finding: str, remedy: str) -> None:
        """`finding` is what was seen, and `remedy` what the user can do. The message has both."""
        super().__init__(f"{finding} {remedy}")
        self.finding = finding


class UpdateMetrics:
    """Metrics of the updates since the last line of the log.

    They stay on the device until the line is written, so that no update waits for the device.
    """

    def __init__(
        self, context: TrainingContext, state: TrainingState, full_model: Callable[[], Model]
    ) -> None:
        self.context, self.world, self.full_model = context, context.world, full_model
        self.log = (
            Log(context.folder, state.step, context.settings.tensorboard) if context.world.is_main else None
        )
        self.updates: list[tuple[int, Update, Tensor, float]] = []
        self.consecutive_non_finite = 0
        self._seconds_before, self._started, self._last_line = (
            state.seconds,
            time.monotonic(),
            time.monotonic(),
        )

    @property
    def seconds(self) -> float:
        """The duration of training, including that of earlier processes."""
        return self._seconds_before + time.monotonic() - self._started

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

    def flush(self, layer_norms: Mapping[str, Tensor] | None = None) -> None:
        """Write the updates since the last line as one line: sums of tokens and seconds, mean losses a token.

        Raises `DivergenceError` if an update is NaN or infinite, unless the settings say to skip it.
        """
        if not self.updates:
            return
        updates, self.updates = self.updates, []
        values = torch.stack([values for _, _, values, _ in updates])
        norms = values[:, 2].tolist()
        sums = self.world.all_reduce(values[:, :2].contiguous()).cpu()
        finite = [number for number, norm in enumerate(norms) if math.isfinite(norm)]
        for number, norm in enumerate(norms):
            self.consecutive_non_finite = 0 if number in finite else self.consecutive_non_finite + 1
            if number not in finite:
                self._handle_non_finite(*updates[number][:2], float(sums[number, 0]), norm)
        seconds = time.monotonic() - self._last_line
        self._last_line += seconds
        if not finite:
            return
        step, update, _, rate = updates[finite[-1]]
        tokens = sum(updates[number][1].tokens for number in finite)
        loss, nll = (sums[finite].sum(0) / tokens).tolist()
        line = {"epoch": update.epoch, "loss": loss, "nll": nll, "tokens": tokens, "seconds": seconds}
        line |= {
            "gradient_norm": norms[finite[-1]],
            "learning_rate": rate,
            "tokens_per_second": tokens / seconds,
        }
        if layer_norms and len(updates) - 1 in finite:
            line["gradient_norms"] = {name: float(norm) for name, norm in layer_norms.items()}
        self.write("train", step, line)

    def _handle_non_finite(self, step: int, update: Update, loss: float, norm: float) -> None:
        """Report a skipped update, or raise `DivergenceError`."""
        from dragoman.training.divergence import locate

        finding = (
            f"In update {step} (epoch {update.epoch}, batch {update.batches_done}) the loss is {loss:g} and "
            f"the gradient norm {norm:g}, in lines {locate(self.context, self.full_model(), step, update)}"
        )
        if self.context.settings.on_divergence == "skip" and self.consecutive_non_finite < MAX_NON_FINITE:
            self.context.say(f"{finding} The update is skipped.")
            self.write("skipped", step, {"message": finding})
            return
        raise DivergenceError(
            f"{finding} It did not change the weights.",
            "Give the same command a lower --learning-rate-scale, a --clip-norm or another --on-divergence, "
            "or check these lines.",
        )
