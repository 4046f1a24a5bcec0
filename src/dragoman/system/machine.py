"""Cores and memory of this process: control groups (version 2), threads, allocator."""

import ctypes
import math
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h
MAX_CACHED_KERNELS = 8192  # of oneDNN, one for each shape of matrices; its default is 1,024
MAX_SPINS = 10_000  # of a thread that waits for another, before it sleeps


def read_system_file(path: Path) -> str:
    """The text of a file in /proc or /sys; "" if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def control_groups(root: Path) -> Iterator[Path]:
    """The folders of this process's control group and its parents, by which Slurm and Docker limit jobs."""
    own = re.search(r"^0::/(.*)$", read_system_file(root / "proc/self/cgroup"), re.MULTILINE)
    group = Path(own[1] if own else "")
    yield from (root / "sys/fs/cgroup" / each for each in (group, *group.parents))


def allowed_processors() -> Collection[int]:
    """The numbers of the processors in this process's affinity mask."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)


def granted_processors(root: Path = Path("/")) -> int:
    """The processors of the affinity mask, or the control groups' quota, rounded up, if it is lower."""
    quotas = (re.match(r"(\d+) (\d+)", read_system_file(group / "cpu.max")) for group in control_groups(root))
    return min(
        [
            len(allowed_processors()),
            *(max(1, math.ceil(int(quota[1]) / int(quota[2]))) for quota in quotas if quota),
        ]
    )


def usable_cores(root: Path = Path("/")) -> int:
    """The number of threads to use: OMP_NUM_THREADS if set, else one a granted core."""
    if (asked := os.environ.get("OMP_NUM_THREADS", "")).isdigit() and int(asked):
        return int(asked)
    siblings = (
        root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
        for number in allowed_processors()
    )
    return min(len({read_system_file(path) or str(path) for path in siblings}), granted_processors(root))


def has_gpu() -> bool:
    """Whether PyTorch finds a GPU. Imports torch only if the system may have one."""
    devices = ("nvidia0", "nvidiactl", "dxg", "kfd")  # of CUDA, of Windows's Linux, of ROCm
    if sys.platform != "win32" and not any(Path("/dev", name).exists() for name in devices):
        return False
    import torch

    return torch.cuda.is_available()


def configure_threads(root: Path = Path("/")) -> None:
    """Limit OpenMP to the granted processors, and let its waiting threads sleep sooner.

    OpenMP ignores the quotas of control groups. Its threads spin at the end of every operation while they
    wait for each other, by default so long that training slows down several times if another program uses one
    of the cores. The user's own environment variables take precedence. Call this before PyTorch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(MAX_SPINS))
    if granted_processors(root) < len(allowed_processors()):
        os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores(root)))


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
    never = -1
    done = [mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, never), mallopt(_TOP_PAD, 64 * 2**20)]
    return all(done)


def trim_memory() -> None:
    """Return free pages of glibc's heap to the system."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def is_out_of_memory(error: Exception) -> bool:
    """Whether PyTorch or oneDNN reports a lack of memory, of a GPU or the machine."""
    signs = ("out of memory", "can't allocate memory", "could not create a primitive")
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in signs)
