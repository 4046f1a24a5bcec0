"""The C allocator, told to keep what it has: fresh pages of a large tensor cost more than the arithmetic on it."""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h


def keep_freed_memory() -> bool:
    """Make glibc reuse freed blocks instead of giving them back to the system; True where that was possible.

    A training step frees and asks for the same blocks again and again. Elsewhere than on glibc nothing is changed.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    done = [mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, 2**31 - 1), mallopt(_TOP_PAD, 64 * 2**20)]
    return all(done)
