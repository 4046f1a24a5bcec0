"""`make.py LIBRARY COMPILER…` compiles a library atomically; it outlives the process that started it."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def compile_atomically(library: Path, command: list[str]) -> int:
    """Compile to a temporary folder, append the hash of the content, rename.

    Returns the exit status; errors go to stderr.
    """
    try:
        for leftover in library.parent.glob("tmp*"):  # of a compiler that was killed
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
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(compile_atomically(Path(sys.argv[1]), sys.argv[2:]))
