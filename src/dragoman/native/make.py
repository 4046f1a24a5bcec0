"""`make.py LIBRARY COMPILER…` makes a library whole or not at all, in a process that outlives the one which began it."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def make(made: Path, command: list[str]) -> int:
    """Have the compiler make the library beside its place, add a hash, then move it there. Returns the exit status; says what fails."""
    try:
        for left in made.parent.glob("tmp*"):  # by a compiler that was killed
            if left.stat().st_mtime < time.time() - 3600:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            new = Path(folder) / made.name
            done = subprocess.run([*command, "-o", str(new)], check=False, capture_output=True)  # noqa: S603  nobody may be listening
            if done.returncode == 0:
                library = new.read_bytes()
                new.write_bytes(library + hashlib.sha256(library).digest())
                new.replace(made)
            else:
                sys.stderr.buffer.write(done.stderr)
            return done.returncode
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(make(Path(sys.argv[1]), sys.argv[2:]))
