"""Signals that end training after the current update: SIGINT (Ctrl-C), SIGTERM and SIGHUP."""

import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if sys.platform != "win32" else ()))


OUT_OF_TIME = -1
"""In place of a signal's number: the time of the training is over."""
ENDED = -2
"""Likewise: the function that is told of events wants the training to end."""


class TrainingEndedError(Exception):
    """The function that is told of events has ended training. A checkpoint of `step` has been written."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


class TrainingInterruptedError(Exception):
    """A signal ended training. A checkpoint of `step` has been written."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(signal_number, step)  # in `args`, for pickles
        self.signal_number, self.step = signal_number, step

    def __str__(self) -> str:
        name = signal.Signals(self.signal_number).name
        return f"Training was interrupted by {name} after update {self.step:,}."


class StopRequest:
    """Records the first stop signal of this process, and that its time is over."""

    def __init__(self, deadline: float = math.inf) -> None:
        """`deadline` is a time of the monotonic clock."""
        self.signal_number: int | None = None
        self.deadline = deadline

    def handle(self, number: int, _: FrameType | None) -> None:
        """Signal handler. A second Ctrl-C raises `KeyboardInterrupt`."""
        if self.signal_number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = self.signal_number or number

    @property
    def number(self) -> int | None:
        """The signal that this process has received, or `OUT_OF_TIME`."""
        return self.signal_number or (OUT_OF_TIME if time.monotonic() >= self.deadline else None)

    def after(self, step: int) -> int | None:  # noqa: ARG002  needed by several processes
        """The signal that a process has received by the end of this step, or `OUT_OF_TIME`; None for neither.

        All processes call this after each step.
        """
        return self.number


@contextmanager
def stop_signals(request: StopRequest) -> Iterator[StopRequest]:
    """Record stop signals in the request, except those that are ignored (nohup)."""
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
