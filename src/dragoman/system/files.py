"""Files and folders that are written atomically; folders have a manifest of hashes."""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

from dragoman.system.errors import DragomanError, reason
from dragoman.system.readers import MAX_LIST, check_tensors_header, open_file, read_json, require_regular

Arrays = dict[str, npt.NDArray[Any]]
MANIFEST = "manifest.json"
NEW, OLD = ".{}.dragoman-new", ".{}.dragoman-old"  # while a folder is replaced; users have no such names
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors without the file's name


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path to write to. It replaces `path` once it is complete; an error leaves the former file.

    A pipe or a device is written to directly. For a symbolic link, the file that it points to is replaced.
    A process that is killed leaves a hidden temporary file. Raises `OSError` with the file's name.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    try:
        path = path.resolve()
    except RuntimeError as error:  # for links in a circle, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {path.parent}", str(path))
    # Process numbers are not unique across machines.
    new = path.with_name(f".{secrets.token_hex(8)}{path.suffix}")
    try:
        new.touch()
        mode = new.stat().st_mode  # of the umask; safetensors writes with 0600
        yield new
        new.chmod(mode)
        sync(new)
        new.replace(path)
    except OSError as error:
        if error.filename == str(new) or (error.errno in DISK_FULL and not error.filename):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # where nothing can be made, this would hide the error that says so
            new.unlink(missing_ok=True)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text to a file, atomically."""
    with atomic_write(path) as new:
        new.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a new folder, add a manifest of its files' hashes, and replace `folder` by it.

    If the process is killed, the old or the new folder is complete, or `recover_interrupted_write` restores
    it. An error leaves the old folder. A symbolic link is replaced, and what it points to is kept. Raises
    `DragomanError` if the disk is full or cannot be written to.
    """
    recover_interrupted_write(folder)
    new, old = beside(folder, NEW), beside(folder, OLD)
    delete(new)
    try:
        new.mkdir(parents=True)
        write(new)
        complete_folder(new)
    except BaseException as error:
        delete(new)
        if isinstance(error, OSError | SafetensorError):
            raise DragomanError(
                f"{folder} could not be written: {reason(error)}. What was written before it is complete; "
                "free some space if the disk is full, then run the same command again."
            ) from error
        raise
    if folder.is_dir() or folder.is_symlink():
        folder.rename(old)
    new.rename(folder)
    sync(folder.parent)
    delete(old)


def beside(folder: Path, name: str) -> Path:
    """The path beside a folder, which may be `.` or `..`, whose name is made from the folder's."""
    folder = folder.resolve() if folder.name in {"", ".."} else folder
    return folder.with_name(name.format(folder.name))


def complete_folder(folder: Path) -> None:
    """Add a manifest of the files' hashes, and wait until all is on the disk.

    Files get the mode of the umask; safetensors writes with 0600.
    """
    write_manifest(folder)
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
        sync(path)
    sync(folder)


def copy_folder(folder: Path, destination: Path) -> None:
    """Replace `destination` by a copy of a folder with a manifest.

    Raises `DragomanError` if it is damaged, or as `write_folder`.
    """
    check_folder(folder)

    def write(new: Path) -> None:
        for path in {*folder.iterdir()} - {folder / MANIFEST}:
            shutil.copyfile(path, new / path.name)

    write_folder(destination, write)


def delete(folder: Path) -> None:
    """Delete a folder if it exists. A symbolic link is deleted itself, not its target."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def recover_interrupted_write(folder: Path) -> None:
    """Complete or undo a `write_folder` that was killed."""
    old = beside(folder, OLD)
    if old.exists() and folder.exists():
        delete(old)
    elif old.exists():
        old.rename(folder)


def readable_folder(folder: Path) -> Path:
    """The folder, or its backup while `write_folder` replaces it. Changes nothing."""
    old = beside(folder, OLD)
    return old if old.is_dir() and not folder.exists() else folder


def file_hash(path: Path) -> str:
    """SHA-256 of a file. Raises `OSError` or `DragomanError` with its name if it cannot be read."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(folder: Path) -> None:
    """List a folder's files, those in its folders too, with their hashes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {path.relative_to(folder).as_posix(): file_hash(path) for path in files}
    (folder / MANIFEST).write_text(json.dumps(hashes, indent=2) + "\n")


def read_manifest(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file by its name.

    Raises `DragomanError` if there is no manifest, or an invalid one.
    """
    path = folder / MANIFEST
    manifest = read_json(path, MAX_LIST)
    if not isinstance(manifest, dict):
        raise DragomanError(f"{path} has to be a table of file names with their SHA-256.")
    for name, value in manifest.items():
        parts = PurePosixPath(name).parts
        is_plain = parts and ".." not in parts and "/".join(parts) == name and not name.startswith("/")
        if not is_plain or not name.isprintable() or "\\" in name or name == MANIFEST:
            raise DragomanError(
                f"{path} lists {name!r}, which is not the relative name of a file in this folder."
            )
        if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
            raise DragomanError(f"{path}: the value of {name!r} is not a SHA-256 in hexadecimal digits.")
    return manifest


def check_folder(folder: Path) -> None:
    """Compare a folder with its manifest: the same files, each a regular file with the hash of the manifest.

    In the cache of the Hugging Face hub the files are links, and a repository has files of its own, such as
    README.md. Raises `DragomanError` with the name of the file that is missing, damaged, unlisted or a link.
    """
    folder = readable_folder(folder)
    manifest, blobs = read_manifest(folder), blobs_of_snapshot(folder)
    for path in sorted(folder.rglob("*")) if blobs is None else ():
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            refuse_link(path)
        if not path.is_dir() and name not in manifest and name != MANIFEST:
            raise DragomanError(f"{path} is not listed in {MANIFEST}; move it out of this folder.")
    for name, expected in manifest.items():
        path = folder / name
        if not path.exists():
            raise DragomanError(f"{path} is missing, and {MANIFEST} lists it; the folder is incomplete.")
        if path.is_symlink() and (blobs is None or path.resolve().parent != blobs):
            refuse_link(path)
        require_regular(path)
        if file_hash(path) != expected:
            raise DragomanError(f"{path} is damaged or was changed: its hash is not the one in {MANIFEST}.")


def blobs_of_snapshot(folder: Path) -> Path | None:
    """The folder that the links of a snapshot in the Hugging Face hub's cache point into; None elsewhere."""
    snapshots = folder.resolve().parent
    blobs = snapshots.with_name("blobs")
    is_cache = snapshots.name == "snapshots" and blobs.is_dir() and not blobs.is_symlink()
    return blobs if is_cache else None


def refuse_link(path: Path) -> NoReturn:
    """Raise `DragomanError`: this is a link."""
    raise DragomanError(f"{path} is a symbolic link; this folder may hold only regular files.")


def read_arrays(path: Path) -> Arrays:
    """The arrays of a safetensors file by their names. Raises `DragomanError` if it is damaged."""
    check_tensors_header(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:  # also of unknown types
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error


def array_types(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each array of a safetensors file, from its header alone.

    Raises `DragomanError` if the file is damaged.
    """
    check_tensors_header(path)
    try:
        with safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  no mapping
            return {name: (array.get_dtype(), tuple(array.get_shape())) for name, array in slices.items()}
    except (OSError, SafetensorError) as error:
        raise DragomanError(f"{path} cannot be read: {reason(error)}.") from error
