"""The C++ as libraries: those of the wheel, or compiled here, once, and kept in the user's cache folder.

$DRAGOMAN_COMPILE=1 compiles in spite of the wheel's. $CXX names the compiler; $DRAGOMAN_CXXFLAGS has compiler
flags to add, for example a sanitizer's (`make sanitize`). A library is compiled again if the sources, the
compiler, its flags or the level of the processor (levels.py) change.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Thread

from dragoman.native.levels import OWN_LEVELS, Level
from dragoman.native.make import is_intact
from dragoman.system.caches import cache_folder
from dragoman.system.callers import warn_caller
from dragoman.system.errors import DragomanError, reason

HERE = Path(__file__).parent
# clang does not know -march=native on aarch64, where GCC 12 with -O3 and SVE compiles the decoder wrongly.
NATIVE = "-O3 -march=native" if platform.machine() == "x86_64" else "-O2 -mcpu=native"
PROCESSOR = tuple((OWN_LEVELS[-1].flags if OWN_LEVELS else NATIVE).split())
# Nobody reads errno or the processor's exception flags; for their sake GCC would not vectorise exponentials.
ARITHMETIC = ("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
FLAGS = ("-std=c++17", *ARITHMETIC, "-fopenmp-simd", "-pthread", "-shared", "-fPIC")
KILLED = 128
"""Exit statuses above this are those of a program that was killed by a signal."""

WITHOUT_COMPILER = (
    "There is neither a compiled decoder for this processor nor a C++ compiler, so PyTorch translates, which "
    "takes more than ten times as long. Install g++ or clang++, or let $CXX name a compiler; the decoder is "
    "then compiled at the next start."
)
"""What to tell who translates much on a CPU."""


def split_words(variable: str) -> list[str]:
    """The words of a variable of the environment. Raises `DragomanError` for a quote without its partner."""
    value = os.environ.get(variable, "")
    try:
        return shlex.split(value)
    except ValueError as error:
        raise DragomanError(f"{variable} is {value!r}, which cannot be split into words: {error}.") from error


@dataclass(frozen=True)
class Program:
    """A source file that is compiled to a library."""

    name: str
    """As messages call it."""
    fallback: str
    """A sentence: what happens if it cannot be compiled."""
    source: Path
    """It may include the headers of this folder."""
    flags: tuple[str, ...] = PROCESSOR
    """Those that choose instructions."""

    def command(self, compiler: list[str]) -> list[str]:
        """The compiler's command line up to the source."""
        return [*compiler, *self.flags, *FLAGS, *split_words("DRAGOMAN_CXXFLAGS")]

    def packaged(self, level: Level) -> Path:
        """Where a wheel has the library for a level."""
        return self.source.parent / "libraries" / f"{self.source.stem}.{level.name}.so"


DECODER = Program(
    "The decoder",
    "PyTorch translates, which takes more than ten times as long.",
    HERE / "beam_search.cpp",
)
TRAINING_KERNELS = Program("The training kernels", "PyTorch trains, slower.", HERE / "training_kernels.cpp")


@cache
def start_compiling(program: Program) -> Future[Path] | None:
    """Start to compile in the background. None if there is no C++ compiler.

    The compiler finishes even if this process ends. The future of a library in the wheel or in the cache is
    done at once.
    """
    future: Future[Path] = Future()
    if packaged := packaged_library(program):
        future.set_result(packaged)
        return future
    try:
        compiler = (
            split_words("CXX") or [path for name in ("g++", "clang++") if (path := shutil.which(name))][:1]
        )
    except DragomanError as error:
        future.set_exception(error)
        return future
    if not compiler:
        return None

    def compile_in_thread() -> None:
        try:
            future.set_result(compile_library(library, program, compiler))
        except BaseException as error:  # `load_library` waits for it, whatever it is
            future.set_exception(error)

    try:
        library = library_path(program, compiler)
        intact = is_readable_and_intact(library)
    except (OSError, RuntimeError, DragomanError) as error:
        future.set_exception(error)
        return future
    if intact:
        future.set_result(library)
    else:
        Thread(target=compile_in_thread, daemon=True).start()
    return future


def packaged_library(program: Program) -> Path | None:
    """The library of the wheel for this processor; None without one, and if $DRAGOMAN_COMPILE is 1."""
    if not OWN_LEVELS or os.environ.get("DRAGOMAN_COMPILE") == "1":
        return None
    library = program.packaged(OWN_LEVELS[-1])
    return library if library.exists() else None


def is_compiled(program: Program) -> bool:
    """Whether `load_library` returns without waiting for the compiler."""
    compiling = start_compiling(program)
    return compiling is None or compiling.done()


if sys.platform != "win32":
    # A forked child does not have the thread that compiles.
    os.register_at_fork(after_in_child=start_compiling.cache_clear)


@cache
def load_library(program: Program) -> ctypes.CDLL | None:
    """The compiled library. None without one and without a C++ compiler, and on failure with a warning."""
    compiling = start_compiling(program)
    if compiling is None:
        return None
    try:
        library = compiling.result()
        return ctypes.CDLL(str(library)) if library == packaged_library(program) else load(library)
    except (OSError, RuntimeError, DragomanError) as error:
        message = f"{program.name} in C++ could not be compiled or loaded. {program.fallback} {reason(error)}"
        warn_caller(message)
        return None


def check_size(size_in_cpp: Callable[[], int], structure: type[ctypes.Structure]) -> None:
    """Compare the size of a structure with C++'s, which a function of the library returns.

    Raises `DragomanError` if they differ.
    """
    if (size := size_in_cpp()) != ctypes.sizeof(structure):
        raise DragomanError(
            f"{structure.__name__} has {ctypes.sizeof(structure)} bytes in Python and {size} in C++; give it "
            "the same fields in both, or install this version of dragoman again."
        )


def load(library: Path) -> ctypes.CDLL:
    """Load a library from a folder that only this user can write to. Raises `OSError`.

    A library that cannot be loaded is removed, so that the next process compiles it again, unless the system
    does not map it: its file system may be mounted noexec.
    """
    if sys.platform != "win32":
        refuse_shared_folders(library.parent)
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        if "failed to map segment" in str(error):
            raise OSError(
                f"{reason(error)} (is {library.parent} mounted noexec? Set XDG_CACHE_HOME to another folder.)"
            ) from error
        library.unlink(missing_ok=True)
        raise


def refuse_shared_folders(folder: Path) -> None:
    """Raise `PermissionError` if another user may replace what is in a folder of the cache.

    This user owns the folder and the two above it, or root the latter. Only the group that is this user's
    own may write to those, or anyone to one where files cannot be renamed by others (such as /tmp).
    """
    for place in (folder, folder.parent, folder.parent.parent):
        status = place.stat()
        if status.st_uid != os.getuid() and (place == folder or status.st_uid != 0):
            raise PermissionError(
                f"{place}, where libraries are kept, belongs to another user; set XDG_CACHE_HOME to a folder "
                "of your own."
            )
        is_user_group = place != folder and status.st_gid == os.getgid()
        shared = status.st_mode & (stat.S_IWOTH if is_user_group else stat.S_IWOTH | stat.S_IWGRP)
        if shared and not (place != folder and status.st_mode & stat.S_ISVTX):
            raise PermissionError(
                f"Others may write to {place}, where libraries are kept; make it writable for you alone "
                "(chmod go-w), or set XDG_CACHE_HOME to a folder of your own."
            )


def is_readable_and_intact(library: Path) -> bool:
    """`is_intact`. Raises `DragomanError` for a cache folder that this user cannot read."""
    try:
        return is_intact(library)
    except OSError as error:
        raise unwritable_cache(library) from error


def library_path(program: Program, compiler: list[str]) -> Path:
    """Where the library for these sources, this compiler, these flags and this processor is kept.

    Raises `OSError`, `RuntimeError` with the compiler's message, `DragomanError` if there is no cache folder.
    """
    command = program.command(compiler)
    # The predefined macros name the compiler and the processor.
    macros = run_compiler([*command, "-dM", "-E", "-x", "c++", os.devnull], compiler)
    sources = [program.source, *sorted(HERE.glob("*.h"))]
    flags = "\0".join(command[1:]).encode()
    key = hashlib.sha256(b"".join([macros, flags, *map(Path.read_bytes, sources)])).hexdigest()[:24]
    return cache_folder() / "native" / f"{key}.so"


def compile_library(library: Path, program: Program, compiler: list[str]) -> Path:
    """Compile a library.

    Raises `OSError`, `RuntimeError` with the compiler's message, `DragomanError` for an unwritable cache.
    """
    try:
        library.parents[3].mkdir(parents=True, exist_ok=True)
        for folder in reversed(library.parents[:3]):
            folder.mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        raise unwritable_cache(library) from error
    if not os.access(library.parent, os.W_OK):
        raise unwritable_cache(library)
    if sys.platform != "win32":
        refuse_shared_folders(library.parent)
    command = [*program.command(compiler), f"-I{HERE}", str(program.source)]
    run_compiler([sys.executable, "-I", str(HERE / "make.py"), str(library), *command], compiler)
    return library


def unwritable_cache(library: Path) -> DragomanError:
    """What to say if libraries cannot be kept."""
    return DragomanError(
        f"The cache folder {library.parent} cannot be read or written by this user; set XDG_CACHE_HOME to a "
        "folder that can."
    )


def run_compiler(command: list[str], compiler: list[str]) -> bytes:
    """Run a command, which Ctrl-C does not reach, and return its output.

    Raises `RuntimeError` with the compiler's message if it fails, or cannot be run.
    """
    try:
        process = subprocess.run(  # noqa: S603
            command, check=False, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True
        )
    except OSError as error:
        raise RuntimeError(f"The compiler {compiler[0]!r} cannot be run: {reason(error)}.") from error
    message = process.stderr.decode(errors="replace").strip()
    if process.returncode < 0 or (process.returncode > KILLED and not message):
        status = process.returncode  # that of a shell, or of make.py, which passes a negative one on
        number = -status if status < 0 else status - KILLED if status < KILLED + 64 else 256 - status
        raise RuntimeError(
            f"The compiler {compiler[0]!r} was killed by signal {number}, perhaps for a lack of memory."
        )
    if process.returncode:
        raise RuntimeError(f"{compiler[0]} says: {message or f'exit status {process.returncode}'}")
    return process.stdout
