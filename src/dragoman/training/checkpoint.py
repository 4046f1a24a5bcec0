"""What stays on disk (section 6.1): checkpoints, and folders that appear whole or not at all. Nothing here unpickles."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from dragoman.disk import sync
from dragoman.errors import DragomanError

MANIFEST = "manifest.json"


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder, add a manifest of its files' hashes, and put it in place of `folder`.

    Killed at any moment, the old folder or the new one is there in whole, or `recover` brings it back. An error while writing
    leaves the old one, and no new one. Raises `DragomanError` where the disk is full or refuses to be written.
    """
    recover(folder)
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


def recover(folder: Path) -> None:
    """Finish or undo a `write_folder` that was killed."""
    old = folder.with_name(folder.name + ".old")
    if old.exists():
        if folder.exists():
            shutil.rmtree(old)
        else:
            old.rename(folder)


def whole_folder(folder: Path) -> Path:
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
    folder = whole_folder(folder)
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


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors. Raises `DragomanError` with the file's name where it is damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DragomanError(f"{path} cannot be read: {error}.") from error


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Each weight once, by the first of its names: tied weights are one tensor."""
    return {name: weight.detach() for name, weight in model.named_parameters()}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Copy tensors into the model. Raises `DragomanError` for a missing, unknown or misshapen one, naming it and `origin`."""
    own = weights(model)
    if missing := sorted(own.keys() - tensors.keys()):
        raise DragomanError(f"{origin} lacks {', '.join(missing)}, which the model's settings ask for.")
    if unknown := sorted(tensors.keys() - own.keys()):
        raise DragomanError(f"{origin} has {', '.join(unknown)}, which a model of these settings does not.")
    for name, weight in own.items():
        if weight.shape != tensors[name].shape:
            raise DragomanError(f"{origin}: {name} has the shape {tuple(tensors[name].shape)}; the settings give {tuple(weight.shape)}.")
        weight.copy_(tensors[name])


def average(paths: Iterable[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, summed in float64 (section 6.1)."""
    total: dict[str, Tensor] = {}
    paths = list(paths)
    for path in paths:
        for name, tensor in load_tensors(path).items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state, named after the weights that it belongs to."""
    return {
        f"{name}|{key}": torch.as_tensor(value)
        for name, weight in model.named_parameters()
        for key, value in optimizer.state[weight].items()
    }


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    named = dict(model.named_parameters())
    for full_name, tensor in tensors.items():
        name, key = full_name.split("|")
        weight = named[name]
        optimizer.state[weight][key] = tensor.to(weight.device, copy=True)  # not a view of a file that may go
