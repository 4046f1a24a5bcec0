"""Compiles C++ for this very processor, once; the library is kept in the user's cache."""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Thread

from dragoman.system.errors import DragomanError
from dragoman.system.files import cache_folder

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-std=c++17", "-ffp-contract=fast", "-shared", "-fPIC")
WIDE = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()  # by themselves compilers halve registers on Intel's


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


DECODER = Program(
    "The decoder",
    "PyTorch translates, slower.",
    tuple(HERE / name for name in ("beam_search.cpp", "transformer.h", "gemm.h", "amx.h")),
    ("-fopenmp-simd", *WIDE),
)
TRAINING_KERNELS = Program(
    "What stands between matrix products in training",
    "PyTorch does it, slower.",
    (HERE / "training_kernels.cpp",),
    ("-fopenmp", *WIDE),
)


@cache
def start_compiling(program: Program) -> Future[Path] | None:
    """Start to compile, so that other work can go on, to the end even if this process has ended; None where there is no C++ compiler.

    A library that was made before is there at once.
    """
    compiler = shlex.split(os.environ.get("CXX", "")) or [found for name in ("g++", "clang++") if (found := shutil.which(name))][:1]
    if not compiler:
        return None
    future: Future[Path] = Future()

    def work() -> None:
        try:
            future.set_result(make(made, program, compiler))
        except BaseException as error:  # whatever it is, `library` waits for it
            future.set_exception(error)

    try:
        made = place(program, compiler)
        there = is_whole(made)
    except (OSError, RuntimeError, DragomanError) as error:
        future.set_exception(error)
        return future
    if there:
        future.set_result(made)
    else:
        Thread(target=work, daemon=True).start()
    return future


def is_compiled(program: Program) -> bool:
    """Whether `library` need not wait."""
    compiling = start_compiling(program)
    return compiling is None or compiling.done()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=start_compiling.cache_clear)  # a thread that compiles is not there


@cache
def library(program: Program) -> ctypes.CDLL | None:
    """The compiled library; None where there is no C++ compiler, or (with a warning that says why) where it fails."""
    compiling = start_compiling(program)
    if compiling is None:
        return None
    try:
        return loaded(compiling.result())
    except (OSError, RuntimeError, DragomanError) as error:
        warnings.warn(f"{program.name} in C++ could not be compiled or loaded. {program.without} {error}", stacklevel=2)
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


def place(program: Program, compiler: list[str]) -> Path:
    """Where the library for these sources, this compiler and this processor is, or will be.

    Raises `OSError`, `RuntimeError` with what the compiler says, and `DragomanError` where there is no folder to keep it in.
    """
    command = program.command(compiler)
    told = answer([*command, "-dM", "-E", "-x", "c++", os.devnull], compiler)
    sources = [*program.sources, HERE / "simd.h"]
    key = hashlib.sha256(b"".join([told, *map(str.encode, command[len(compiler) :]), *map(Path.read_bytes, sources)])).hexdigest()[:24]
    return cache_folder() / "native" / f"{key}.so"


def is_whole(made: Path) -> bool:
    """Whether a library is there, and ends with the hash of all before it, as make.py leaves it: one that was cut would end the process."""
    content = made.read_bytes() if made.exists() else b""
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


def make(made: Path, program: Program, compiler: list[str]) -> Path:
    """Compile the library to its place. Raises `OSError`, and `RuntimeError` with what the compiler says."""
    made.parent.parent.mkdir(parents=True, exist_ok=True)
    made.parent.mkdir(exist_ok=True, mode=0o700)
    command = [*program.command(compiler), f"-I{HERE}", str(program.sources[0])]
    answer([sys.executable, "-I", str(HERE / "make.py"), str(made), *command], compiler)
    return made


def answer(command: list[str], compiler: list[str]) -> bytes:
    """What a command of the compiler's writes; Ctrl-C does not reach it. Raises `RuntimeError` with what it says when it fails."""
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"{compiler[0]} says: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
