"""Models of the Hugging Face hub, by their names (extra: dragoman[huggingface]). Nothing is unpickled."""

import re
from pathlib import Path

from dragoman.system.errors import DragomanError

NAME = re.compile(r"(\w[\w.-]*)/\w[\w.-]*", re.ASCII)
FILES = ["*.json", "*.spm", "*.model", "model.safetensors", "model.toml"]
"""Those of a MarianMTModel and of a model folder; no pickles."""


def is_name(model: object) -> bool:
    """Whether this is a name such as us/opus-mt-en-de, and neither it nor its owner is a path here."""
    name = NAME.fullmatch(model) if isinstance(model, str) else None
    return name is not None and not any(Path(path).exists() for path in (name[0], name[1]))


def download(name: str) -> Path:
    """The folder with the files of a model, in the hub's cache; those that it has are not downloaded again.

    Raises `DragomanError` without the library, without such a model or its weights, and if the hub cannot be
    reached.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import RepositoryNotFoundError
    except ImportError as error:
        raise DragomanError(
            f"There is no folder {name}. If it is the name of a model on the Hugging Face hub, a library is "
            "missing: pip install 'dragoman[huggingface]'."
        ) from error
    try:
        folder = Path(snapshot_download(name, allow_patterns=FILES, ignore_patterns=["*/*"]))
    except RepositoryNotFoundError as error:
        raise DragomanError(
            f"There is no folder {name}, and the Hugging Face hub has no public model of this name."
        ) from error
    except Exception as error:  # its clients of HTTP have errors of their own
        reason, *_ = str(error).split("\n")
        raise DragomanError(
            f"There is no folder {name}, and the Hugging Face hub cannot be reached. If it is the name of a "
            f"model there, try again with a network ({reason[:200]})."
        ) from error
    is_ours = (folder / "model.toml").exists()
    missing = [file for file in ("config.json", "model.safetensors") if not (folder / file).exists()]
    if missing and not is_ours:
        raise DragomanError(
            f"{name} has no {missing[0]} on the Hugging Face hub. MarianMTModels with safetensors and model "
            "folders of Dragoman are read from there, and no pickles; download its folder and use dragoman "
            "import for others."
        )
    return folder
