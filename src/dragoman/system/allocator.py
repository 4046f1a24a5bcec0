"""The C allocator and oneDNN told to keep what they have, and what is said where there is no more."""

import ctypes
import os
from contextlib import suppress

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h
MOST_KERNELS = 8192  # that oneDNN keeps, one a shape of matrices: of 161,197 pairs eight passes have 2,498, and by itself it keeps 1,024


def configure_allocator() -> bool:
    """Make oneDNN keep its kernels, and glibc reuse freed blocks, in huge pages; True where the latter was possible.

    A training step frees and asks for the same blocks again and again, and fresh pages of a large tensor cost more than the
    arithmetic on it. A kernel for matrices of another shape takes some milliseconds to make, and some 0.2 MB. Elsewhere than on
    glibc memory is left as it is. To be called before the first large tensor is made.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(MOST_KERNELS))  # oneDNN reads it at its first product
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # PyTorch reads it at its first tensor
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    never = -1
    done = [mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, never), mallopt(_TOP_PAD, 64 * 2**20)]
    return all(done)


def trim_memory() -> None:
    """Let glibc give the system all pages that nothing lies in: what is kept grows with the shapes of the texts that are met."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def out_of_memory(error: Exception) -> bool:
    """Whether the error says that memory is used up: of a GPU, or of the machine, as PyTorch and oneDNN say it."""
    told = ("out of memory", "can't allocate memory", "could not create a primitive")
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in told)
