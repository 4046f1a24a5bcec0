"""Errors of the operating system as sentences."""

import tempfile

from dragoman.system.errors import reason
from dragoman.system.files import DISK_FULL


def sentence_of(error: OSError) -> str:
    """What the system refused, and what to do."""
    path = error.filename or "The disk"
    if error.errno in DISK_FULL:
        folder = None if error.filename else tempfile.tempdir  # None if no temporary file was made
        temporary = f", also for temporary files in {folder} (TMPDIR)" if folder else ""
        return (
            f"{path} could not be written: {reason(error)}. Free some space{temporary}, and run the command "
            "again."
        )
    match error:
        case FileExistsError():
            return f"{path} is a file, and a folder is wanted there. Give another name, or move the file."
        case NotADirectoryError():
            return f"{path} cannot be used: a part of this path is a file, not a folder. Give another path."
        case PermissionError():
            return f"{path} cannot be used: permission denied. Give another path, or change its permissions."
    return f"{path}: {reason(error)}."
