"""Files that are there as a whole or not at all."""

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from dragoman.system.errors import DragomanError

MANIFEST = "manifest.json"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # which do not say of which file


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Where to write a file: it gets its name once all of it is on the disk. An error leaves what was there before.

    What is no plain file, a pipe or a device, is written to at once; of a link, the file that it leads to is replaced.
    Of a process that is killed meanwhile a hidden file stays behind, which nobody reads. Raises `OSError` with the file's name.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = path.resolve()
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"{path.parent} is no folder", str(path))
    new = path.with_name(f".{secrets.token_hex(8)}-{path.name}")  # processes of several machines may have one number
    try:
        yield new
        with new.open("rb+") as file:
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        if error.errno in FULL and not error.filename:
            error.filename = str(path)
        raise
    finally:
        new.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Where what can be made again is kept: $XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman. Raises `DragomanError` without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragoman"
    except RuntimeError as error:
        raise DragomanError("This user has no home folder to keep files in; set XDG_CACHE_HOME to a folder.") from error


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder, add a manifest of its files' hashes, and put it in place of `folder`.

    Killed at any moment, the old folder or the new one is there in whole, or `recover_interrupted_write` brings it back. An error while writing
    leaves the old one, and no new one. Raises `DragomanError` where the disk is full or refuses to be written.
    """
    recover_interrupted_write(folder)
    new, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        write(new)
        write_manifest(new)
        for path in new.iterdir():
            sync(path)
        sync(new)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        if isinstance(error, OSError | SafetensorError):
            raise DragomanError(
                f"{folder} could not be written: {error}. What was written before it is whole; make room, then go on with the same command."
            ) from error
        raise
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def copy_folder(folder: Path, to: Path) -> None:
    """Put a copy of such a folder in place of `to`. Raises `DragomanError` where it is damaged, and what `write_folder` raises."""
    check_folder(folder)

    def write(new: Path) -> None:
        for path in folder.iterdir():
            if path.name != MANIFEST:
                shutil.copyfile(path, new / path.name)

    write_folder(to, write)


def remove_folder(folder: Path) -> None:
    """Delete such a folder. Killed meanwhile, it is there in whole or not at all: what is left of it `write_folder` clears away."""
    left = folder.with_name(folder.name + ".new")
    shutil.rmtree(left, ignore_errors=True)
    folder.rename(left)
    shutil.rmtree(left)


def recover_interrupted_write(folder: Path) -> None:
    """Finish or undo a `write_folder` that was killed."""
    old = folder.with_name(folder.name + ".old")
    if old.exists():
        if folder.exists():
            shutil.rmtree(old)
        else:
            old.rename(folder)


def readable_folder(folder: Path) -> Path:
    """The folder, or where a `write_folder` at work has put it for a moment. Reads only."""
    old = folder.with_name(folder.name + ".old")
    return old if old.is_dir() and not folder.exists() else folder


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path) -> None:
    """List a folder's files, those in its folders too, with their hashes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): file_hash(path) for path in files}
    (folder / MANIFEST).write_text(json.dumps(hashes, indent=2) + "\n")


def check_folder(folder: Path) -> None:
    """Compare a folder with its manifest. Raises `DragomanError` with the file that is missing, cut or changed."""
    folder = readable_folder(folder)
    try:
        manifest = dict[str, str](json.loads((folder / MANIFEST).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise DragomanError(f"{folder} has no readable {MANIFEST}, so nothing in it can be trusted ({error}).") from error
    for name, expected in manifest.items():
        path = folder / name
        if not path.is_file():
            raise DragomanError(f"{path} is missing, and {MANIFEST} lists it; the folder is not whole.")
        if file_hash(path) != expected:
            raise DragomanError(f"{path} is not the file that was written: its hash is not the one in {MANIFEST}.")
