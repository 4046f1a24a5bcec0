"""The allocator's settings."""

import ctypes
import os
import subprocess
import sys

import pytest

from dragoman.allocator import MOST_SPINS, keep_memory_and_kernels, leave_processor_to_others
from tests.conftest import MOST_SECONDS


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_glibc_takes_the_settings():
    assert keep_memory_and_kernels()


@pytest.mark.parametrize("given", [None, "0"])
def test_huge_pages_are_asked_for_unless_the_user_says_otherwise(monkeypatch, given):
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", given or "")
    if given is None:
        monkeypatch.delenv("THP_MEM_ALLOC_ENABLE")
    keep_memory_and_kernels()
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == (given or "1")


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, str(MOST_SPINS)), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_threads_sleep_soon_unless_the_user_says_otherwise(monkeypatch, given, expected):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, given.get(name, ""))
        if name not in given:
            monkeypatch.delenv(name)
    leave_processor_to_others()
    assert os.environ.get("GOMP_SPINCOUNT") == expected


def test_a_command_says_so_before_pytorch_is_there():
    code = "import os, sys; from dragoman import cli; sys.argv = ['dragoman', 'runs', '--help']\n"
    code += "try: cli.main()\nfinally: assert 'torch' not in sys.modules and 'GOMP_SPINCOUNT' in os.environ"
    environment = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, stdout=subprocess.DEVNULL)


FILL = """
import ctypes
import resource
from pathlib import Path
from dragoman.allocator import give_back_memory, keep_memory_and_kernels

keep_memory_and_kernels()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
used = lambda: int(Path("/proc/self/statm").read_text().split()[1])
blocks = [libc.malloc(2**20) for _ in range(200)]
for block in blocks:
    ctypes.memset(block, 1, 2**20)
for block in blocks[:-1]:  # the last one keeps the end of the heap
    libc.free(block)
before = used()
give_back_memory()
print((before - used()) * resource.getpagesize() > 150 * 2**20)
"""


def test_free_pages_are_given_back():
    if sys.platform != "linux" or not keep_memory_and_kernels():
        pytest.skip("this is no glibc")
    done = subprocess.run([sys.executable, "-c", FILL], capture_output=True, text=True, timeout=MOST_SECONDS, check=True)
    assert done.stdout.strip() == "True"


def test_elsewhere_nothing_happens(monkeypatch):
    def no_library(name):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert not keep_memory_and_kernels()
