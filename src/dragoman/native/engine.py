"""Searches of several callers in one batch: the threads of beam_search.cpp, and a future for each search."""

import ctypes
import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from ctypes import POINTER, Structure, addressof, c_int32, c_size_t, c_void_p, sizeof
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, TypeVar

from dragoman.native.build import check_size
from dragoman.search.hypothesis import Hypothesis
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.futures import fulfil, refuse_forked


class Search(Structure):
    """As in beam_search.cpp, which says what the fields are."""

    _fields_ = [
        ("sentences", c_int32),
        ("beam_size", c_int32),
        ("n_best", c_int32),
        ("max_rows", c_int32),
        ("min_length", c_int32),
        ("no_repeat_ngram", c_int32),
        ("banned_count", c_int32),
        ("prefix_length", c_int32),
        ("banned_ids", c_void_p),
        ("banned_offsets", c_void_p),
        ("prefix", c_void_p),
        ("source_ids", c_void_p),
        ("source_offsets", c_void_p),
        ("max_lengths", c_void_p),
        ("shortlist", c_void_p),
        ("shortlist_offsets", c_void_p),
        ("source_positions", c_void_p),
        ("target_positions", c_void_p),
        ("rows", c_void_p),
        ("forced_ids", c_void_p),
        ("form_offsets", c_void_p),
        ("phrase_forms", c_void_p),
        ("places", c_void_p),
        ("place_offsets", c_void_p),
        ("sentence_phrases", c_void_p),
        ("continuing", c_void_p),
        ("length_normalization", c_void_p),
        ("output_offsets", c_void_p),
        ("output_ids", c_void_p),
        ("lengths", c_void_p),
        ("log_probs", c_void_p),
        ("scores", c_void_p),
        ("attention", c_void_p),
        ("attention_offsets", c_void_p),
        ("stable_ids", c_void_p),
        ("stable_lengths", c_void_p),
        ("next_sentence", c_int32),
        ("unfinished", c_int32),
        ("stopped", c_int32),
        ("status", c_int32),
    ]


def declare_engine(lib: ctypes.CDLL) -> None:
    """Declare the functions for an `SearchEngine`. Raises `DragomanError` if `Search` differs in size."""
    check_size(lib.dragoman_sizeof_search, Search)
    lib.dragoman_new_engine.restype = c_void_p
    lib.dragoman_new_engine.argtypes = [c_void_p, c_int32, c_int32]
    for free in (lib.dragoman_close_engine, lib.dragoman_free_engine):
        free.restype = None
        free.argtypes = [c_void_p]
    lib.dragoman_set_nice.restype = None
    lib.dragoman_set_nice.argtypes = [c_void_p, c_int32]
    lib.dragoman_cancel.restype = None
    lib.dragoman_cancel.argtypes = [c_void_p, c_void_p]
    lib.dragoman_wait_finished.argtypes = [c_void_p, POINTER(c_void_p), c_int32]


Hypotheses = list[list[Hypothesis]]
Result = TypeVar("Result")
SUBMIT = ctypes.PYFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t)
CAPACITY = 64  # searches that are finished together


@dataclass(frozen=True)
class Pending:
    """A search that C++ has: all that must live until it is done, and what to do then."""

    engine: "SearchEngine"
    search: Search
    read: Callable[[], Any]
    future: Future[Any]

    def finish(self) -> None:
        """Give the future its result or exception."""
        fulfil(self.future, self.read)


class SearchFuture(Future[Result]):
    """The result of a search. If it is cancelled, the search ends after its current step."""

    def __init__(self, engine: "SearchEngine", address: int) -> None:
        super().__init__()
        self._engine, self._address = engine, address

    def cancel(self) -> bool:
        """As `Future.cancel`."""
        cancelled = super().cancel()
        if cancelled:
            self._engine.cancel(self._address, self)
        return cancelled


class SearchEngine:
    """Threads in C++ that search with a packed model, and share all searches that are submitted."""

    def __init__(self, lib: ctypes.CDLL, model: int, workers: int, max_rows: int) -> None:
        """The engine frees the model. Raises `DragomanError` if there are no memory or threads for it."""
        self._lib, self._lock = lib, Lock()
        self._pending: dict[int, Pending] = {}
        self._engine = lib.dragoman_new_engine(model, workers, max_rows)
        if not self._engine:
            lib.dragoman_free_model(model)
            raise OptionError(
                f"The system cannot provide the memory or the threads for {{workers}} {workers}; give fewer."
            )
        # It takes microseconds, and keeps the interpreter's lock.
        self._submit = SUBMIT(("dragoman_submit", lib))
        self._process = os.getpid()
        # Not at the program's end: other threads may still submit searches then.
        self._closing = weakref.finalize(self, close_engine, lib, self._engine, self._process)
        self._closing.atexit = False
        arguments = lib, self._engine, model, self._pending, self._lock
        Thread(target=finish_searches, args=arguments, name="dragoman-searches", daemon=True).start()

    def set_nice(self, nice: int) -> None:
        """Set the niceness (0 to 19) of the C++ threads: the system prefers the program's other threads."""
        self._lib.dragoman_set_nice(self._engine, nice)

    def submit(self, search: Search, read: Callable[[], Result]) -> Future[Result]:
        """Begin a search, whose result `read` returns when its sentences are done or its status is not 0.

        A future that is cancelled ends the search after the current step. The future gets the errors of
        `read`. Raises `DragomanError` if C++ has another structure, and in a process that was forked after
        the engine was made: threads do not survive a fork.
        """
        refuse_forked(self._process)
        address = addressof(search)
        future: SearchFuture[Result] = SearchFuture(self, address)
        with self._lock:
            # In this order: Ctrl-C may end this function at any moment, and C++ then uses the search.
            self._pending[address] = Pending(self, search, read, future)
            if status := self._submit(self._engine, address, sizeof(search)):
                del self._pending[address]
                check_status(status)
        return future

    def cancel(self, address: int, future: Future[Any]) -> None:
        """End the search at an address if it is that of a future."""
        with self._lock:  # another search may have its address by now
            if (pending := self._pending.get(address)) and pending.future is future:
                self._lib.dragoman_cancel(self._engine, address)


def close_engine(lib: ctypes.CDLL, engine: int, process: int) -> None:
    """End the engine's threads, which a forked process does not have."""
    if os.getpid() == process:
        lib.dragoman_close_engine(engine)


def finish_searches(
    lib: ctypes.CDLL, engine: int, model: int, pending: dict[int, Pending], lock: Lock
) -> None:
    """Finish each search that is done, until the engine closes; then free it. For a thread of its own."""
    addresses = (c_void_p * CAPACITY)()
    while count := lib.dragoman_wait_finished(engine, addresses, CAPACITY):
        with lock:
            done = [pending.pop(address) for address in addresses[:count] if address]
        while done:  # keep none: the engine closes when its last user is gone
            done.pop(0).finish()
    lib.dragoman_free_engine(engine)
    lib.dragoman_free_model(model)


def check_status(status: int) -> None:
    """Raise `MemoryError` for OUT_OF_MEMORY (1) and `DragomanError` for WRONG_SIZE (2); 0 is OK."""
    if status == 1:
        raise MemoryError
    if status:
        raise DragomanError("beam_search.cpp is of another version than engine.py; install dragoman again.")
