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

interruption = ContextVar("interruption", default=Event())  # noqa: B039  no work sets the default event
"""The event that is set when nobody wants the result of the current work any more.

Searches look at it at each step.

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
    """An executor with one thread. In a forked process, which has no such thread, it refuses all work."""

    def __init__(self, name: str) -> None:
        super().__init__(1, name)
        self._process_id = os.getpid()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """As `Executor.submit`. Raises as `refuse_forked`."""
        refuse_forked(self._process_id)
        return super().submit(fn, *args, **kwargs)


def refuse_forked(process_id: int) -> None:
    """Raise `DragomanError` in another process than that with this id: a fork does not copy threads."""
    if os.getpid() != process_id:
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
    """As `submit_interruptible`, with a future that the caller has made: `result` gets the result."""

    def run() -> None:
        interruption.set(result.interrupted)
        fulfil(result, function)

    executor.submit(copy_context().run, run)  # a copy, so that `interruption` is that of this work alone


def fulfil(future: Future[T], function: Callable[[], T]) -> None:
    """Give a future the function's result or exception, unless it has been cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except CancelledError:
        # The traceback of the caught exception would keep the search's variables in memory.
        future.set_exception(CancelledError())
    except Exception as error:
        future.set_exception(error)


def then(future: Future[T], function: Callable[[T], U], executor: Executor) -> Future[U]:
    """A new future: the result of `function` for the result of `future`, computed by the executor.

    If one of the two futures is cancelled, so is the other, and the function sees the `interruption`. The new
    future has the exception of `future`, if there is one, and a `RuntimeError` if the executor has shut down.
    """
    result: InterruptibleFuture[U] = InterruptibleFuture()

    def start(done: Future[T]) -> None:
        if done.cancelled():
            result.cancel()
            result.set_running_or_notify_cancel()  # for those who wait, as an executor does
            return
        try:
            submit_for(result, lambda: function(done.result()), executor)
        except RuntimeError as error:
            result.set_exception(error)

    future.add_done_callback(start)
    result.add_done_callback(lambda done: future.cancel() if done.cancelled() else None)
    return result
