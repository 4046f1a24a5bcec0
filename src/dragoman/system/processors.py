"""Processors of this process: the affinity mask, control groups (version 2), threads, worker processes."""

import math
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from dragoman.system.errors import DragomanError

Item = TypeVar("Item")
Result = TypeVar("Result")
MAX_THREADS = 10_000
MAX_SPINS = 10_000  # of a thread that waits for another, before it sleeps


def read_system_file(path: Path) -> str:
    """The text of a file in /proc or /sys; "" if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def control_groups(root: Path) -> Iterator[Path]:
    """The folders of this process's control group and its parents, by which Slurm and Docker limit jobs."""
    match = re.search(r"^0::/(.*)$", read_system_file(root / "proc/self/cgroup"), re.MULTILINE)
    group = Path(match[1] if match else "")
    yield from (root / "sys/fs/cgroup" / folder for folder in (group, *group.parents))


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
    """The number of threads to use: OMP_NUM_THREADS (the first of a list), or else one per granted core."""
    value = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if value.isdigit() and int(value):
        return min(int(value), MAX_THREADS)
    siblings = (
        root / f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
        for number in allowed_processors()
    )
    return min(len({read_system_file(path) or str(path) for path in siblings}), granted_processors(root))


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


def map_in_processes(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The function's results for the items, from as many processes as there are processors.

    Raises `DragomanError` if one of them is killed.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    workers = min(len(items), granted_processors())
    if workers <= 1:
        return [function(item) for item in items]
    try:
        with ProcessPoolExecutor(workers, get_context("spawn"), begin_worker) as pool:
            return list(pool.map(function, items))
    except BrokenProcessPool as error:
        raise DragomanError(
            f"One of {workers} processes that read the text was killed, as the system does when memory is "
            'short; or this is a script without if __name__ == "__main__":, which each process runs again. '
            "Run the same command with fewer processors (taskset -c 0), or with more memory."
        ) from error


def begin_worker() -> None:
    """Let this process end with the one that started it, also if that is killed, and at once if interrupted.

    Otherwise it would wait for work for ever, and could still write to the folder of the next run.
    """
    from multiprocessing import parent_process
    from threading import Thread

    parent = parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a traceback
    Thread(target=end_with_parent, daemon=True).start()
