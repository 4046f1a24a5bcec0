"""The folder of what can be downloaded or compiled again."""

import os
from pathlib import Path

from dragoman.system.errors import DragomanError


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman if that is not set or relative.

    Raises `DragomanError` if the user has no home folder.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
        return (folder if folder.is_absolute() else Path.home() / ".cache") / "dragoman"
    except RuntimeError as error:
        raise DragomanError("This user has no home folder; set XDG_CACHE_HOME to a folder.") from error
