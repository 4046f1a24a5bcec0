"""The allocator's settings."""

import ctypes
import os
import sys

import pytest

from dragoman.training.memory import keep_memory_and_kernels


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


def test_elsewhere_nothing_happens(monkeypatch):
    def no_library(name):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert not keep_memory_and_kernels()
