"""`make.py LIBRARY COMPILER…` makes a library whole or not at all, in a process that outlives the one which began it."""

import subprocess
import sys
import tempfile
from pathlib import Path


def make(made: Path, command: list[str]) -> int:
    """Have the compiler make the library beside its place, then move it there. Returns the compiler's exit status."""
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        new = Path(folder) / made.name
        status = subprocess.run([*command, "-o", str(new)], check=False).returncode  # noqa: S603
        if status == 0:
            new.replace(made)
    return status


if __name__ == "__main__":
    sys.exit(make(Path(sys.argv[1]), sys.argv[2:]))
