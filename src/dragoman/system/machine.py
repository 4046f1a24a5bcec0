"""What this machine leaves to this process: its control groups (version 2), its cores, and how it waits for them. No torch here."""

import ctypes
import math
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h
MAX_CACHED_KERNELS = 8192  # that oneDNN keeps, one a shape of matrices: of 161,197 pairs eight passes have 2,498, and by itself it keeps 1,024
MAX_SPINS = 10_000  # of a thread that waits for another: 0.1 ms on an Intel Xeon, 0.3 on an AMD EPYC


def read_system_file(path: Path) -> str:
    """What a file of the system says; nothing where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""


def control_groups(root: Path) -> Iterator[Path]:
    """The folders of this process's group and of those around it: Slurm, Docker and Kubernetes bound their jobs by such groups."""
    own = re.search(r"^0::/(.*)$", read_system_file(root / "proc/self/cgroup"), re.MULTILINE)
    group = Path(own[1] if own else "")
    yield from (root / "sys/fs/cgroup" / each for each in (group, *group.parents))


def allowed_processors() -> Collection[int]:
    """The processors that this process may run on, by their numbers."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)


def granted_processors(root: Path = Path("/")) -> int:
    """How many this process may keep busy: those that it may run on, and no more than control groups grant, rounded up."""
    quotas = (re.match(r"(\d+) (\d+)", read_system_file(group / "cpu.max")) for group in control_groups(root))
    return min(
        [
            len(allowed_processors()),
            *(max(1, math.ceil(int(quota[1]) / int(quota[2]))) for quota in quotas if quota),
        ]
    )


def usable_cores(root: Path = Path("/")) -> int:
    """How many threads are of use: OMP_NUM_THREADS, as for PyTorch, or one for each core among those processors."""
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
    """Have OpenMP use no more threads than are granted, and let them sleep soon where another one does not come.

    By itself it knows nothing of control groups, and its threads, which wait for each other at the end of every operation, spin 30 times as
    long. Where another program has one of the cores, its time is then spent waiting: on two of an Intel Xeon's, `small` learnt 13,300
    tokens a second alone and 2,200 beside a busy program; so it learns as much alone and 6,600 beside it (1765b4c, November 2026). What
    the user has set stays. To be called before PyTorch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(MAX_SPINS))
    if granted_processors(root) < len(allowed_processors()):
        os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores(root)))


def configure_allocator() -> bool:
    """Make oneDNN keep its kernels, and glibc reuse freed blocks, in huge pages; True where the latter was possible.

    A training step frees and asks for the same blocks again and again, and fresh pages of a large tensor cost more than the
    arithmetic on it. A kernel for matrices of another shape takes some milliseconds to make, and some 0.2 MB. Elsewhere than on
    glibc memory is left as it is. To be called before the first large tensor is made.
    """
    os.environ.setdefault(
        "ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(MAX_CACHED_KERNELS)
    )  # oneDNN reads it at its first product
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


def is_out_of_memory(error: Exception) -> bool:
    """Whether the error says that memory is used up: of a GPU, or of the machine, as PyTorch and oneDNN say it."""
    told = ("out of memory", "can't allocate memory", "could not create a primitive")
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in told)
