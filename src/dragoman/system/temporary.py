"""Temporary folders that no other user can read. Those of killed processes are removed by others."""

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from weakref import finalize

UNNAMED = ".new-"  # what the name of a folder begins with until it is locked


class TemporaryFolder:
    """A folder that exists until `remove` is called, or at the latest until the process ends.

    The process holds a lock on it, which ends with the process however that ends. A new folder removes those
    of the same prefix that nobody holds.
    """

    def __init__(self, prefix: str) -> None:
        remove_abandoned(prefix)
        new = Path(mkdtemp(prefix=UNNAMED + prefix))
        lock = os.open(new, os.O_RDONLY)
        with suppress(OSError):  # without locks in a file system nobody gets one, and nothing is removed
            fcntl.flock(lock, fcntl.LOCK_EX)
        self.path = new.rename(new.with_name(new.name.removeprefix(UNNAMED)))
        self.remove = finalize(self, remove_locked, self.path, lock)
        """Remove the folder with all that is in it."""


def remove_locked(folder: Path, lock: int) -> None:
    """Remove a folder, and give back its lock."""
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def remove_abandoned(prefix: str) -> None:
    """Remove the temporary folders of this user with a prefix that no living process has made."""
    for folder in Path(gettempdir()).glob(f"{prefix}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # it is no folder, another user's, or gone
            continue
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # its process is alive
            continue
        finally:
            os.close(lock)
