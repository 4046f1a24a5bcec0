"""The numbers of the last updates, from the device to the log, and what is said where they are no numbers."""

import math
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.system.allocator import out_of_memory
from dragoman.text.batches import Update
from dragoman.training.checkpoint import Place
from dragoman.training.context import Job
from dragoman.training.divergence import DivergenceError, first_non_finite_layer
from dragoman.training.log import Log
from dragoman.training.objective import seed_update

MAX_NON_FINITE = 20  # updates in succession without numbers end the run


class Recent:
    """The updates since the last line of the log. Their numbers stay on the device until the line is written: no update waits."""

    def __init__(self, job: Job, place: Place, unwrapped_model: Callable[[], Model]) -> None:
        self.job, self.world, self.unwrapped_model = job, job.world, unwrapped_model
        self.log = Log(job.folder, place.step, job.settings.tensorboard) if job.world.leads else None
        self.updates: list[tuple[int, Update, Tensor, float]] = []
        self.consecutive_non_finite = 0
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
            self.consecutive_non_finite = 0 if number in good else self.consecutive_non_finite + 1
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
        what = (
            f"In step {step} (epoch {update.epoch}, batch {update.batches_done}) the loss is {loss:g} and the norm of the gradient "
            f"{norm:g}, in lines {self._where(step, update)}"
        )
        if self.job.settings.on_divergence == "skip" and self.consecutive_non_finite < MAX_NON_FINITE:
            self.job.say(f"{what} The update is left out.")
            self.write("skipped", step, {"message": what})
            return
        raise DivergenceError(
            f"{what} The weights were not changed by it.",
            "Give the same command a lower --learning-rate-scale, a --clip-norm or another --on-divergence, or look at these lines.",
        )

    def _where(self, step: int, update: Update) -> str:
        """The lines of an update, of the process where it went wrong, and the layer that is first to give no number."""
        lines = sorted(self.job.batches.corpus.line(pair) for batch in update.batches for pair in batch.pairs)
        shown = ", ".join(map(str, lines[:8])) + (f" and {len(lines) - 8} more" if len(lines) > 8 else "")
        layers = self.world.join([self._bad_layer(step, update)], self.world.size)
        rank = next((rank for rank, layer in enumerate(layers) if layer), 0)
        why = f"First to be no number is {layers[rank]}." if layers[rank] else "With the weights of now it does not happen again."
        return f"{self.world.join([shown], self.world.size)[rank]} of the training text. {why}"

    def _bad_layer(self, step: int, update: Update) -> str:
        """The layer that is first to give no number in this process's batches, or nothing."""
        objective = self.job.objective(self.unwrapped_model()).train()
        seed_update(self.job.settings.seed, step, self.world.rank)
        try:
            layers = (first_non_finite_layer(objective, batch.to(self.world.device)) for batch in update.batches)
            return next(filter(None, layers), "")
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return "not known, since the memory does not suffice to look for it"
