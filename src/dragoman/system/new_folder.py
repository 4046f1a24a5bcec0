"""Folders that appear once, complete, and replace nothing."""

import secrets
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from dragoman.system.errors import DragomanError, OptionError, reason
from dragoman.system.files import MANIFEST, complete_folder, delete, sync


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


def refuse_existing(out: Path) -> None:
    """Raise `DragomanError` if there is something already."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise exists_already(out)


def exists_already(out: Path) -> DragomanError:
    """The error of an output that would replace something."""
    return OptionError("{path} exists already; choose another {out}, or delete it.", path=out)


def refuse_taken(out: Path) -> None:
    """Raise `DragomanError` if there is something, even a link to nothing, and in the folder of a model."""
    if out == Path.cwd():
        raise OptionError("{out} is the current folder, {path}; give a new one.", path=out)
    refuse_existing(out)
    if out.is_symlink():
        raise exists_already(out)
    for folder in out.parents:
        if (folder / MANIFEST).exists() and (folder / "model.toml").exists():
            raise OptionError(
                "{path} is in the folder of the model {folder}; choose another {out}.",
                path=out,
                folder=folder,
            )
