"""Checkpoints of other toolkits, which are pickles: tensors and plain values are read, no code is run."""

import argparse
import re
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.system.errors import DragomanError, is_out_of_memory


def load_pickle(path: Path) -> dict[str, Any]:
    """Load the dictionary in a file of `torch.save`, by PyTorch's `weights_only` loading.

    `argparse.Namespace` is allowed, and the classes in the caller's `torch.serialization.safe_globals`.
    Raises `DragomanError` if the file is damaged or holds objects of other classes, and PyTorch's error if
    memory runs out.
    """
    refuse_pipe(path)
    try:
        refuse_compressed(path)
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings(action="ignore"):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror}.") from error
    except DragomanError:
        raise
    except Exception as error:  # a damaged file makes torch raise nearly anything
        if is_out_of_memory(error):
            raise
        if other := re.search(r"nsupported (?:global: GLOBAL|GLOBAL|class) ([\w.]+)", str(error)):
            reason = (
                f"holds {other[1]}, which is neither tensor nor plain value; no code of the file was run."
            )
        else:
            reason = "is damaged, or is not a checkpoint of PyTorch; no code of it was run."
        raise DragomanError(f"{path} {reason}") from error
    if not isinstance(checkpoint, dict):
        raise DragomanError(f"{path} holds a {type(checkpoint).__name__} where a checkpoint is a dictionary.")
    return checkpoint


def refuse_pipe(path: Path) -> None:
    """Raise `DragomanError` for a pipe or a device, which may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DragomanError(f"{path} is not a file; a file of a model is wanted.")


def refuse_compressed(path: Path) -> None:
    """Raise `DragomanError` for compressed parts: they may be thousands of times as large as the file.

    `torch.save` compresses nothing.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
                raise DragomanError(
                    f"{path} has compressed parts, which torch.save does not write; it was not read. Load it "
                    "with PyTorch, if you trust it, and save it again."
                )


def only_checkpoint(folder: Path, files: Sequence[Path], advice: str) -> Path:
    """The only one of these files. Raises `DragomanError`, with the advice, if there are none or several."""
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise DragomanError(f"{folder} should hold one checkpoint, and has {names}; {advice}.")
    return files[0]
