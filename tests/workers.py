"""What worker processes of the tests do: they import this module, and no PyTorch."""

import os
import signal
import time
from pathlib import Path


def end_if(is_killed):
    """Work for a worker that the system may kill."""
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)


def write_and_wait(path, seconds):
    """Work for a worker that is still at it long after a test has ended."""
    with Path(path).open("w", buffering=1) as told:
        told.write("begun\n")
        time.sleep(seconds)
        told.write("late\n")
