"""Compiles search.cpp for this very processor, once; the library is kept in the user's cache."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from functools import cache
from pathlib import Path

SOURCES = [Path(__file__).parent / name for name in ("search.cpp", "transformer.h", "product.h")]
FLAGS = ["-O3", "-march=native", "-std=c++17", "-fopenmp-simd", "-ffp-contract=fast", "-shared", "-fPIC"]


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None where there is no C++ compiler, or (with a warning that says why) where it fails."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    try:
        return ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr.decode(errors="replace").strip() if isinstance(error, subprocess.CalledProcessError) else error
        warnings.warn(f"The decoder in C++ could not be compiled with {compiler}; PyTorch translates, slower. {why}", stacklevel=2)
        return None


def _compiled(compiler: str) -> Path:
    """The library for these sources, this compiler and this processor, made if it is not there."""
    told = subprocess.run([compiler, *FLAGS, "-dM", "-E", "-x", "c++", os.devnull], check=True, capture_output=True).stdout  # noqa: S603
    key = hashlib.sha256(b"".join([told, *map(str.encode, FLAGS), *map(Path.read_bytes, SOURCES)])).hexdigest()[:24]
    made = cache_folder() / f"{key}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            new = Path(folder) / made.name
            subprocess.run([compiler, *FLAGS, str(SOURCES[0]), "-o", str(new)], check=True, capture_output=True)  # noqa: S603
            new.replace(made)
    return made


def cache_folder() -> Path:
    """Where compiled libraries are kept: $XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
