"""Signals that end training after the current update: SIGINT (Ctrl-C), SIGTERM and SIGHUP."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import torch

from dragoman.training.distributed import World

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if sys.platform != "win32" else ()))
SECONDS_BETWEEN_QUERIES = 2.0  # about, between two exchanges of processes about signals


class TrainingInterruptedError(Exception):
    """A signal ended training. A checkpoint of `step` has been written."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(
            f"Training was interrupted by {signal.Signals(signal_number).name} after update {step}."
        )
        self.signal_number = signal_number
        self.step = step


class StopRequest:
    """Records the first stop signal of this process and tells all processes about it."""

    def __init__(self, world: World, step: int) -> None:
        self.world = world
        self.signal_number: int | None = None
        self._next_query, self._last_query, self._last_time = step + 1, step, time.monotonic()

    def handle(self, number: int, _: FrameType | None) -> None:
        """Signal handler. A second Ctrl-C raises `KeyboardInterrupt`."""
        if self.signal_number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = self.signal_number or number

    def after(self, step: int) -> int | None:
        """The signal that a process has received by the end of this step, if any.

        All processes call this after each step. Several processes communicate about every
        `SECONDS_BETWEEN_QUERIES`, at a step that they agree on: a query in every step would wait for the GPU.
        """
        if self.world.size == 1:
            return self.signal_number
        if step < self._next_query:
            return None
        now = time.monotonic()
        seconds_per_step = (now - self._last_time) / (step - self._last_query)
        received = [float(number == self.signal_number) for number in STOP_SIGNALS]
        *counts, seconds = self.world.all_reduce(
            torch.tensor([*received, seconds_per_step], device=self.world.device)
        ).tolist()
        interval = max(1, round(SECONDS_BETWEEN_QUERIES * self.world.size / seconds))
        self._next_query, self._last_query, self._last_time = step + interval, step, now
        return next((number for number, count in zip(STOP_SIGNALS, counts, strict=True) if count), None)


@contextmanager
def stop_signals(world: World, step: int) -> Iterator[StopRequest]:
    """Catch stop signals, except those that are ignored (nohup). `step` is the last step that is done."""
    request = StopRequest(world, step)
    former = {}
    for number in STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            with suppress(ValueError):  # signals can be handled in the main thread only
                former[number] = signal.signal(number, request.handle)
    try:
        yield request
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
