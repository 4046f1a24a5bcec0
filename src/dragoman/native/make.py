"""`make.py LIBRARY COMPILER…` compiles a library atomically; it outlives the process that started it.

If several processes compile a library at the same time, one does and the others wait for it.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(library: Path) -> Iterator[None]:
    """Hold a lock, where the system and the file system have locks. Two processes that compile do no harm."""
    if sys.platform == "win32":
        yield
        return
    lock = library.with_suffix(".lock")
    with lock.open("w") as file:
        try:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            lock.unlink(missing_ok=True)


def is_intact(library: Path) -> bool:
    """Whether a library exists and ends with the hash of its content; loading a truncated one is fatal."""
    content = library.read_bytes() if library.exists() else b""
    return hashlib.sha256(content[:-32]).digest() == content[-32:]


def compile_once(library: Path, command: list[str]) -> int:
    """Compile, unless another process has done so meanwhile. Returns the exit status; errors go to stderr."""
    try:
        with locked(library):
            return 0 if is_intact(library) else compile_atomically(library, command)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1


def compile_atomically(library: Path, command: list[str]) -> int:
    """Compile to a temporary folder, append the hash of the content, rename.

    Returns the exit status; the compiler's errors go to stderr. Raises `OSError`.
    """
    for leftover in library.parent.glob("tmp*"):  # of a compiler that was killed
        with suppress(FileNotFoundError):  # another process has removed it
            if leftover.stat().st_mtime < time.time() - 3600:
                shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        new = Path(folder) / library.name
        # The output is captured because stderr may be closed.
        process = subprocess.run([*command, "-o", str(new)], check=False, capture_output=True)  # noqa: S603
        if process.returncode == 0:
            content = new.read_bytes()
            new.write_bytes(content + hashlib.sha256(content).digest())
            new.replace(library)
        else:
            sys.stderr.buffer.write(process.stderr)
        return process.returncode


if __name__ == "__main__":
    sys.exit(compile_once(Path(sys.argv[1]), sys.argv[2:]))
