"""The allocator's settings."""

import ctypes
import sys

import pytest

from dragoman.training.memory import keep_freed_memory


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_glibc_takes_the_settings():
    assert keep_freed_memory()


def test_elsewhere_nothing_happens(monkeypatch):
    def no_library(name):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert not keep_freed_memory()
