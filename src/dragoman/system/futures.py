"""Futures of futures, and futures whose work can be ended after it has begun."""

import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from threading import Event
from typing import Any, TypeVar

from dragoman.system.errors import DragomanError

T = TypeVar("T")
U = TypeVar("U")

interruption = ContextVar("interruption", default=Event())  # noqa: B039  the default is never set
"""It is set when nobody wants the result of this work any more. Searches look at it at each step.

:meta hide-value:
"""


class InterruptibleFuture(Future[T]):
    """A future that sets `interruption` for its work when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupted = Event()

    def cancel(self) -> bool:
        """As `Future.cancel`: False if the work has begun. It then ends soon, with `CancelledError`."""
        self.interrupted.set()
        return super().cancel()


class OneThread(ThreadPoolExecutor):
    """One thread, which a forked process does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(1, name)
        self._process = os.getpid()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As `Executor.submit`. Raises as `refuse_forked`."""
        refuse_forked(self._process)
        return super().submit(fn, *args, **kwargs)


def refuse_forked(process: int) -> None:
    """Raise `DragomanError` in another process than this one: threads do not survive a fork."""
    if os.getpid() != process:
        raise DragomanError(
            "This process was forked from one that had loaded the model, and its search threads were not "
            "copied; load the model in each process."
        )


def submit_interruptible(executor: Executor, function: Callable[[], T]) -> Future[T]:
    """As `executor.submit`. If the future is cancelled, a search by the function ends at its next step."""
    result: InterruptibleFuture[T] = InterruptibleFuture()
    submit_for(result, function, executor)
    return result


def submit_for(result: InterruptibleFuture[T], function: Callable[[], T], executor: Executor) -> None:
    """As `submit_interruptible`, for a future that exists."""

    def run() -> None:
        interruption.set(result.interrupted)
        fulfil(result, function)

    executor.submit(copy_context().run, run)


def fulfil(future: Future[T], function: Callable[[], T]) -> None:
    """Give a future the function's result or exception, unless it has been cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except CancelledError:
        future.set_exception(CancelledError())  # the traceback of the other one keeps all that a search had
    except Exception as error:
        future.set_exception(error)


def then(future: Future[T], function: Callable[[T], U], executor: Executor) -> Future[U]:
    """The future of a function of a future's result, computed by the executor.

    If one of them is cancelled, so is the other, and the function sees the `interruption`. It has an
    exception if the executor has shut down.
    """
    result: InterruptibleFuture[U] = InterruptibleFuture()

    def start(done: Future[T]) -> None:
        if done.cancelled():
            result.cancel()
            return
        try:
            submit_for(result, lambda: function(done.result()), executor)
        except RuntimeError as error:
            result.set_exception(error)

    future.add_done_callback(start)
    result.add_done_callback(lambda done: future.cancel() if done.cancelled() else None)
    return result
