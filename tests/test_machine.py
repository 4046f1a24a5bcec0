"""What the machine leaves to a process."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.system import machine, processors
from dragoman.system.errors import DragomanError
from dragoman.system.machine import cpu_threads, matrix_speed, shared_property
from dragoman.system.processors import (
    MAX_SPINS,
    allowed_processors,
    configure_threads,
    granted_processors,
    map_in_processes,
    usable_cores,
)
from tests.conftest import MAX_SECONDS
from tests.workers import end_if

OPENMP = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")


@pytest.fixture(autouse=True)
def untold(monkeypatch):
    """Nobody has told OpenMP anything; what the tests tell it is forgotten."""
    for name in OPENMP:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def grant(root, group, quota):
    """Have a control group, in which this process is or which is around it, grant a share of time."""
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text("1:name=systemd:/\n0::/job/step\n")
    folder = root / "sys/fs/cgroup" / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.max").write_text(f"{quota} 100000\n")


def test_there_are_as_many_threads_as_cores_or_as_openmp_is_told(monkeypatch):
    assert 1 <= usable_cores() <= granted_processors() <= len(allowed_processors())
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert usable_cores() == 3
    for asked, number in {" 2,1": 2, "4294967296": 10_000}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert usable_cores() == number
    for nonsense in ("0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert 1 <= usable_cores() <= granted_processors()


@pytest.mark.parametrize("group", ["job/step", "job", "."])
def test_there_are_no_more_threads_than_control_groups_grant(tmp_path, group):
    assert granted_processors(tmp_path) == len(allowed_processors())
    for each in ("job/step", "job", "."):
        grant(tmp_path, each, "max")
    assert granted_processors(tmp_path) == len(allowed_processors())
    for quota, count in (("50000", 1), ("100000", 1), ("150000", min(2, len(allowed_processors())))):
        grant(tmp_path, group, quota)
        assert granted_processors(tmp_path) == usable_cores(tmp_path) == count


@settings(max_examples=12)
@given(
    st.lists(st.none() | st.integers(1, 1_000_000), min_size=3, max_size=3),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
)
@example([None, 150_001, 10**6], [0, 1, 0, 2])
@example([None, None, 100_000], [0, 1])
def test_threads_are_the_cores_within_the_lowest_quota_rounded_up(quotas, cores):
    """Processors of one core count once; their numbers here are the places in the list."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        root = Path(folder)
        patched.setattr(processors, "allowed_processors", lambda: range(len(cores)))
        for group, quota in zip(("job/step", "job", "."), quotas, strict=True):
            grant(root, group, "max" if quota is None else quota)
        for number, core in enumerate(cores):
            topology = root / f"sys/devices/system/cpu/cpu{number}/topology"
            topology.mkdir(parents=True)
            siblings = ",".join(str(other) for other, same in enumerate(cores) if same == core)
            (topology / "thread_siblings_list").write_text(f"{siblings}\n")
        granted = min([len(cores), *(-(-quota // 100_000) for quota in quotas if quota is not None)])
        assert granted_processors(root) == granted
        assert usable_cores(root) == min(len(set(cores)), granted)


def test_openmp_is_told_what_is_granted_where_that_is_less(tmp_path):
    configure_threads(tmp_path)
    assert "OMP_NUM_THREADS" not in os.environ
    grant(tmp_path, "job", "20000")
    configure_threads(tmp_path)
    assert os.environ.get("OMP_NUM_THREADS") == ("1" if len(allowed_processors()) > 1 else None)


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, str(MAX_SPINS)), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_threads_sleep_soon_unless_the_user_says_otherwise(monkeypatch, given, expected):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    configure_threads()
    assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_a_command_says_so_before_pytorch_is_there():
    code = "import os, sys; from dragoman.cli import main as cli; sys.argv = ['dragoman', 'runs', '--help']\n"
    code += "try: cli.main()\nfinally: assert 'torch' not in sys.modules and 'GOMP_SPINCOUNT' in os.environ"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_worker_that_the_system_kills_is_told_in_a_sentence(monkeypatch):
    monkeypatch.setattr(processors, "granted_processors", lambda: 2)
    with pytest.raises(DragomanError, match="One of 2 processes that read the text was killed, .* memory is"):
        map_in_processes(end_if, [False, True])


def test_threads_that_ask_at_once_share_what_one_of_them_computes():
    class Slow:
        computed = 0

        @shared_property
        def value(self) -> object:
            self.computed += 1
            time.sleep(0.05)
            return object()

    slow = Slow()
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(lambda _: slow.value, range(4)))
    assert slow.computed == 1
    assert len(set(map(id, values))) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_a_speed_is_that_of_the_fastest_product_and_the_threads_of_pytorch_stay(monkeypatch, threads):
    before, clock, used = torch.get_num_threads(), accumulate(range(1, 100, 3)), []

    def look():
        used.append(torch.get_num_threads())
        return next(clock)

    monkeypatch.setattr(machine.time, "perf_counter", look)
    first = 4  # of 1, 5, 12, 22, 35 …, what the clock shows: the least difference of two looks
    operations = 2 * 1024 * 512 * 512  # a product and a sum for each number of the inner dimension
    assert matrix_speed(threads, "float32") == operations / first
    assert {*used} == {threads}
    assert torch.get_num_threads() == before == cpu_threads()


def test_no_items_need_no_processes():
    assert map_in_processes(end_if, []) == []


def test_workers_end_with_the_process_that_started_them(tmp_path):
    path = tmp_path / "told"
    os.mkfifo(path)
    program = (
        "from functools import partial\n"
        "from dragoman.system import processors\n"
        "from tests.workers import write_and_wait\n"
        "processors.granted_processors = lambda: 2\n"
        f"processors.map_in_processes(partial(write_and_wait, seconds={MAX_SECONDS}), [{str(path)!r}] * 2)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[1], stderr=subprocess.DEVNULL
    )
    with path.open() as told:
        assert [told.readline(), told.readline()] == ["begun\n"] * 2
        parent.kill()
        parent.wait()
        assert told.read() == "", "all writers have ended, and none has written more"
