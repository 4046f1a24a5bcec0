"""Compiles C++ for this very processor, once; the library is kept in the user's cache."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-std=c++17", "-ffp-contract=fast", "-shared", "-fPIC")


@dataclass(frozen=True)
class Program:
    """What is compiled to one library."""

    name: str
    """Of people's."""
    without: str
    """What happens where it cannot be compiled."""
    sources: tuple[Path, ...]
    """The file to compile, then what it includes."""
    flags: tuple[str, ...]

    def command(self, compiler: list[str]) -> list[str]:
        """All but where the headers and the library are."""
        return [*compiler, *FLAGS, *self.flags]


@cache
def begin(program: Program) -> Future[Path] | None:
    """Start to compile in a thread, so that other work can go on; None where there is no C++ compiler."""
    compiler = os.environ.get("CXX", "").split() or [found for name in ("g++", "clang++") if (found := shutil.which(name))][:1]
    if not compiler:
        return None
    thread = ThreadPoolExecutor(1)
    future = thread.submit(compiled, program, compiler)
    thread.shutdown(wait=False)
    return future


if sys.platform != "win32":
    os.register_at_fork(after_in_child=begin.cache_clear)  # a thread that compiles is not there


@cache
def library(program: Program) -> ctypes.CDLL | None:
    """The compiled library; None where there is no C++ compiler, or (with a warning that says why) where it fails."""
    compiling = begin(program)
    if compiling is None:
        return None
    try:
        return loaded(compiling.result())
    except subprocess.CalledProcessError as error:
        why = f"{error.cmd[0]} says: {error.stderr.decode(errors='replace').strip()}"
    except (OSError, RuntimeError) as error:
        why = str(error)
    warnings.warn(f"{program.name} in C++ could not be compiled or loaded. {program.without} {why}", stacklevel=2)
    return None


def loaded(path: Path) -> ctypes.CDLL:
    """A library of a folder that is this user's alone; one that cannot be loaded is removed, so that the next time makes it anew.

    Raises `OSError`.
    """
    folder = path.parent.stat()
    if sys.platform != "win32" and (folder.st_uid != os.getuid() or folder.st_mode & 0o022):
        raise PermissionError(f"Others may write to {path.parent}, where libraries are kept; let it be yours alone (chmod 700).")
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
        raise


def compiled(program: Program, compiler: list[str]) -> Path:
    """The library for these sources, this compiler and this processor, made if it is not there."""
    command = program.command(compiler)
    told = subprocess.run([*command, "-dM", "-E", "-x", "c++", os.devnull], check=True, capture_output=True).stdout  # noqa: S603
    sources = [*program.sources, HERE / "vectors.h"]
    key = hashlib.sha256(b"".join([told, *map(str.encode, command[len(compiler) :]), *map(Path.read_bytes, sources)])).hexdigest()[:24]
    made = cache_folder() / f"{key}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            new = Path(folder) / made.name
            subprocess.run([*command, f"-I{HERE}", str(sources[0]), "-o", str(new)], check=True, capture_output=True)  # noqa: S603
            new.replace(made)
    return made


def cache_folder() -> Path:
    """Where compiled libraries are kept: $XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
