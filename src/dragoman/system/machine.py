"""The machine's allocator of memory, its threads and their speed."""

import ctypes
import os
import sys
import time
from contextlib import nullcontext, suppress
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING

if sys.platform != "win32":
    import resource

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h
MAX_CACHED_KERNELS = 8192  # of oneDNN, one for each shape of matrices; its default is 1,024


if TYPE_CHECKING:
    shared_property = cached_property
else:

    class shared_property(cached_property):  # noqa: N801  named as the class that it extends
        """A `cached_property` that is computed once when several threads ask, as before Python 3.12."""

        def __get__(self, instance: object, owner: type | None = None) -> object:
            key = f"_lock_{self.attrname}"
            with nullcontext() if instance is None else vars(instance).setdefault(key, RLock()):
                return super().__get__(instance, owner)


def cpu_threads() -> int:
    """The threads that PyTorch uses."""
    import torch

    return torch.get_num_threads()


def matrix_speed(threads: int, precision: str) -> float:
    """Operations a second of products of matrices on the CPU: the fastest of several, in a few milliseconds.

    `precision` is `float32` or `bfloat16`.
    """
    import torch

    first, second = (torch.ones(size, dtype=getattr(torch, precision)) for size in ((1024, 512), (512, 512)))
    former = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        seconds = []
        for _ in range(10):
            started = time.perf_counter()
            first @ second
            seconds.append(time.perf_counter() - started)
    finally:
        torch.set_num_threads(former)
    return 2 * 1024 * 512 * 512 / min(seconds)


def configure_allocator() -> bool:
    """Let oneDNN cache more kernels, and glibc reuse freed blocks. True if glibc has the settings.

    A training step frees and allocates the same blocks again and again, and the first access to new pages of
    a large tensor is slower than the arithmetic on it. oneDNN compiles a kernel for each shape of matrices.
    Without glibc the allocator is left as it is. Call this before the first large tensor is made.
    """
    # oneDNN reads it at its first product.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(MAX_CACHED_KERNELS))
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # PyTorch reads it at its first tensor
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    # A threshold of -1: never trim.
    return all([mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, -1), mallopt(_TOP_PAD, 64 * 2**20)])


def raise_open_file_limit(count: int) -> None:
    """Let this process open `count` files besides some others, as far as the system allows.

    Connections and memory-mapped files count as open files. Windows has no such limit.
    """
    if sys.platform == "win32":
        return
    needed, (soft, hard) = count + 500, resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def trim_memory() -> None:
    """Return free pages of glibc's heap to the system."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
