"""Folders that appear once, complete, and replace nothing."""

import secrets
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from dragoman.system.errors import DragomanError, reason
from dragoman.system.files import complete_folder, delete, sync


def write_new_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder, which then appears with a manifest of its files' hashes.

    Several processes can do so at once: the first that is complete gets the name. A process that is killed
    leaves a hidden folder beside it. Raises `DragomanError` if there is something else than an empty folder,
    and if the disk is full or cannot be written to.
    """
    place = folder.resolve()
    new = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        new.mkdir(parents=True)
        write(new)
        complete_folder(new)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise DragomanError(
                f"{folder} exists: something else has made it in the meantime. It is left as it is; give "
                "another folder."
            )
        new.rename(place)  # fails if files have come into the folder since
        sync(place.parent)
    except (OSError, SafetensorError) as error:
        raise DragomanError(
            f"{folder} could not be written: {reason(error)}. Free some space if the disk is full, then run "
            "the same command again."
        ) from error
    finally:
        delete(new)
