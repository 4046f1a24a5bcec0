"""Checkpoints that other toolkits wrote as pickles: tensors and plain values are read, and nothing of the
file is run.
"""

import argparse
import re
import warnings
from pathlib import Path
from typing import Any

import torch

from dragoman.system.errors import DragomanError


def load_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a file of `torch.save`, by torch's `weights_only` loading.

    Of classes it may have `argparse.Namespace`, and what the caller has put among
    `torch.serialization.safe_globals`. Raises `DragomanError` with the reason where there is anything else in
    it, or where it is damaged.
    """
    try:
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings(action="ignore"):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise DragomanError(f"{path} cannot be read: {error.strerror}.") from error
    except MemoryError:
        raise
    except Exception as error:  # junk makes torch raise nearly anything
        if other := re.search(r"nsupported (?:global: GLOBAL|class) ([\w.]+)", str(error)):
            reason = f"{path} holds {other[1]}, which is no tensor and no plain value; "
            reason += "nothing of the file was run."
        else:
            reason = f"{path} is damaged, or no checkpoint of PyTorch's; nothing of it was run."
        raise DragomanError(reason) from error
    if not isinstance(found, dict):
        raise DragomanError(f"{path} holds a {type(found).__name__} where a checkpoint is a dictionary.")
    return found
