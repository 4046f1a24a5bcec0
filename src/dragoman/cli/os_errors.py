"""Errors of the operating system, and of names of files, as sentences."""

import errno
import re
import tempfile
from pathlib import Path

from dragoman.system.errors import reason
from dragoman.system.files import DISK_FULL


def sentence_of(error: OSError) -> str:
    """What the system refused, and what to do."""
    if error.errno in DISK_FULL:
        path = error.filename or "The disk"
        folder = None if error.filename else tempfile.tempdir  # None if no temporary file was made
        temporary = f", also for temporary files in {folder} (TMPDIR)" if folder else ""
        return (
            f"{path} could not be written: {reason(error)}. Free some space{temporary}, and run the command "
            "again."
        )
    if not (path := error.filename):
        return f"The operating system refused what this command needs: {reason(error)}."
    match error:
        case FileExistsError() if Path(path).is_symlink() and not Path(path).exists():
            problem = (
                f"is a symbolic link to {Path(path).readlink()}, which does not exist. Make a folder there, "
                "or give another name"
            )
        case FileExistsError():
            problem = "is a file, and a folder is wanted there. Give another name, or move the file"
        case NotADirectoryError():
            problem = "cannot be used: a part of this path is a file, not a folder. Give another path"
        case PermissionError():
            problem = "cannot be used: permission denied. Give another path, or change its permissions"
        case OSError(errno=errno.EROFS):
            problem = "cannot be written: the file system is read-only. Give another path"
        case _:
            return f"{path}: {reason(error)}."
    return f"{path} {problem}."


def sentence_of_name(error: UnicodeEncodeError) -> str:
    """Which name has characters that a file or another engine cannot hold, and what to do.

    Names of files may have bytes that are not UTF-8. Python keeps them as characters without an encoding.
    """
    before, after = (
        re.split(r'["\n]', part) for part in (error.object[: error.start], error.object[error.start :])
    )
    name = before[-1] + after[0]
    return (
        f"{name!a} is not a name in {error.encoding.upper()}, which this command needs; rename it, "
        "or give another name."
    )
