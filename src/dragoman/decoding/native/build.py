"""Compiles search.cpp for this very processor, once; the library is kept in the user's cache."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

SOURCES = [Path(__file__).parent / name for name in ("search.cpp", "transformer.h", "product.h")]
FLAGS = ["-O3", "-march=native", "-std=c++17", "-fopenmp-simd", "-ffp-contract=fast", "-shared", "-fPIC"]


@cache
def begin() -> Future[Path] | None:
    """Start to compile in a thread, so that other work can go on; None where there is no C++ compiler."""
    compiler = os.environ.get("CXX", "").split() or [found for name in ("g++", "clang++") if (found := shutil.which(name))][:1]
    if not compiler:
        return None
    thread = ThreadPoolExecutor(1)
    future = thread.submit(compiled, compiler)
    thread.shutdown(wait=False)
    return future


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None where there is no C++ compiler, or (with a warning that says why) where it fails."""
    path = begin()
    if path is None:
        return None
    try:
        return ctypes.CDLL(str(path.result()))
    except subprocess.CalledProcessError as error:
        why = f"{error.cmd[0]} says: {error.stderr.decode(errors='replace').strip()}"
    except OSError as error:
        why = str(error)
    warnings.warn(f"The decoder in C++ could not be compiled; PyTorch translates, slower. {why}", stacklevel=2)
    return None


def compiled(compiler: list[str]) -> Path:
    """The library for these sources, this compiler and this processor, made if it is not there."""
    command = [*compiler, *FLAGS]
    told = subprocess.run([*command, "-dM", "-E", "-x", "c++", os.devnull], check=True, capture_output=True).stdout  # noqa: S603
    key = hashlib.sha256(b"".join([told, *map(str.encode, FLAGS), *map(Path.read_bytes, SOURCES)])).hexdigest()[:24]
    made = cache_folder() / f"{key}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            new = Path(folder) / made.name
            subprocess.run([*command, str(SOURCES[0]), "-o", str(new)], check=True, capture_output=True)  # noqa: S603
            new.replace(made)
    return made


def cache_folder() -> Path:
    """Where compiled libraries are kept: $XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
