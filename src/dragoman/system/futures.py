"""Futures of futures."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def then(future: Future[T], function: Callable[[T], U], executor: Executor) -> Future[U]:
    """The future of a function of a future's result, computed by the executor.

    If it is cancelled, so is the first one.
    """
    result: Future[U] = Future()

    def run(done: Future[T]) -> None:
        if not result.set_running_or_notify_cancel():
            return
        try:
            result.set_result(function(done.result()))
        except Exception as error:
            result.set_exception(error)

    def start(done: Future[T]) -> None:
        if not done.cancelled():
            executor.submit(run, done)

    future.add_done_callback(start)
    result.add_done_callback(lambda done: future.cancel() if done.cancelled() else None)
    return result
