"""What the machine leaves to a process."""

import os
import subprocess
import sys

import pytest

from dragoman.system.processors import (
    MAX_SPINS,
    allowed_processors,
    configure_threads,
    granted_processors,
    usable_cores,
)

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
