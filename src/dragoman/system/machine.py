"""What this machine leaves to this process: its control groups (version 2), its cores, and how it waits for them. No torch here."""

import math
import os
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

MOST_SPINS = 10_000  # of a thread that waits for another: 0.1 ms on an Intel Xeon, 0.3 on an AMD EPYC


def text(path: Path) -> str:
    """What a file of the system says; nothing where there is none."""
    try:
        return path.read_text()
    except OSError:
        return ""


def control_groups(root: Path) -> Iterator[Path]:
    """The folders of this process's group and of those around it: Slurm, Docker and Kubernetes bound their jobs by such groups."""
    own = re.search(r"^0::/(.*)$", text(root / "proc/self/cgroup"), re.MULTILINE)
    group = Path(own[1] if own else "")
    yield from (root / "sys/fs/cgroup" / each for each in (group, *group.parents))


def allowed() -> Collection[int]:
    """The processors that this process may run on, by their numbers."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)


def processors(root: Path = Path("/")) -> int:
    """How many this process may keep busy: those that it may run on, and no more than control groups grant, rounded up."""
    quotas = (re.match(r"(\d+) (\d+)", text(group / "cpu.max")) for group in control_groups(root))
    return min([len(allowed()), *(max(1, math.ceil(int(quota[1]) / int(quota[2]))) for quota in quotas if quota)])


def cores(root: Path = Path("/")) -> int:
    """How many threads are of use: OMP_NUM_THREADS, as for PyTorch, or one for each core among those processors."""
    if (asked := os.environ.get("OMP_NUM_THREADS", "")).isdigit() and int(asked):
        return int(asked)
    siblings = (root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list" for number in allowed())
    return min(len({text(path) or str(path) for path in siblings}), processors(root))


def configure_threads(root: Path = Path("/")) -> None:
    """Have OpenMP use no more threads than are granted, and let them sleep soon where another one does not come.

    By itself it knows nothing of control groups, and its threads, which wait for each other at the end of every operation, spin 30 times as
    long. Where another program has one of the cores, its time is then spent waiting: on two of an Intel Xeon's, `small` learnt 13,300
    tokens a second alone and 2,200 beside a busy program; so it learns as much alone and 6,600 beside it (1765b4c, November 2026). What
    the user has set stays. To be called before PyTorch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(MOST_SPINS))
    if processors(root) < len(allowed()):
        os.environ.setdefault("OMP_NUM_THREADS", str(cores(root)))
