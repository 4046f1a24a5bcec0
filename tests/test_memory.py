"""The allocator's settings."""

import ctypes
import os
import subprocess
import sys

import pytest

from dragoman.system.machine import configure_allocator
from tests.conftest import MAX_SECONDS


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_glibc_takes_the_settings():
    assert configure_allocator()


@pytest.mark.parametrize("given", [None, "0"])
def test_huge_pages_are_asked_for_unless_the_user_says_otherwise(monkeypatch, given):
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", given or "")
    if given is None:
        monkeypatch.delenv("THP_MEM_ALLOC_ENABLE")
    configure_allocator()
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == (given or "1")


FILL = """
import ctypes
import resource
from pathlib import Path
from dragoman.system.machine import trim_memory, configure_allocator

configure_allocator()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
used = lambda: int(Path("/proc/self/statm").read_text().split()[1])
blocks = [libc.malloc(2**20) for _ in range(200)]
for block in blocks:
    ctypes.memset(block, 1, 2**20)
for block in blocks[:-1]:  # the last one keeps the end of the heap
    libc.free(block)
before = used()
trim_memory()
print((before - used()) * resource.getpagesize() > 150 * 2**20)
"""


@pytest.mark.long
def test_free_pages_are_given_back():
    if sys.platform != "linux" or not configure_allocator():
        pytest.skip("this is no glibc")
    done = subprocess.run(
        [sys.executable, "-c", FILL], capture_output=True, text=True, timeout=MAX_SECONDS, check=True
    )
    assert done.stdout.strip() == "True"


def test_without_glibc_nothing_happens(monkeypatch):
    def no_library(name):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert not configure_allocator()
