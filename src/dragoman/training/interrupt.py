"""Signals that end training after the current update: SIGINT (Ctrl-C), SIGTERM and SIGHUP."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if sys.platform != "win32" else ()))


class TrainingInterruptedError(Exception):
    """A signal ended training. A checkpoint of `step` has been written."""

    def __init__(self, signal_number: int, step: int) -> None:
        super().__init__(signal_number, step)  # in `args`, for pickles
        self.signal_number, self.step = signal_number, step

    def __str__(self) -> str:
        name = signal.Signals(self.signal_number).name
        return f"Training was interrupted by {name} after update {self.step:,}."


class StopRequest:
    """Records the first stop signal of this process."""

    def __init__(self) -> None:
        self.signal_number: int | None = None

    def handle(self, number: int, _: FrameType | None) -> None:
        """Signal handler. A second Ctrl-C raises `KeyboardInterrupt`."""
        if self.signal_number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = self.signal_number or number

    def after(self, step: int) -> int | None:  # noqa: ARG002  needed by several processes
        """The signal that a process has received by the end of this step, if any.

        All processes call this after each step.
        """
        return self.signal_number


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
