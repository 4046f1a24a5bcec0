"""What a folder is that has no model, and what to do about it."""

from pathlib import Path
from shlex import quote

ADAPTER = "adapter.json"
"""The file that an adapter has (adapter.py)."""


def is_adapter(folder: Path) -> bool:
    """Whether the folder looks like one of `Adapter.save`."""
    return (folder / ADAPTER).is_file()


def explain_no_model(folder: Path) -> str:
    """What to do if a folder that should have a model has none."""
    path = quote(str(folder))  # for a shell
    if not folder.exists():
        return f"There is no folder {folder}. dragoman runs lists the runs."
    if not folder.is_dir():
        return (
            f"{folder} is a file, and the folder of a run is wanted. A file is translated by: "
            f"dragoman translate RUN < {path}"
        )
    if is_adapter(folder):
        return (
            f"{folder} is an adapter, not a model. Merge it with the model that it was trained on: "
            f"dragoman import {path} --from adapter --base RUN --out FOLDER"
        )
    if (folder / "config.json").exists():
        return (
            f"{folder} has a config.json, as models of Hugging Face do. Read it first: "
            f"dragoman import {path} --from huggingface --out FOLDER"
        )
    runs = sorted(str(path.parent.parent) for path in folder.glob("*/model/model.toml"))
    if runs:
        return f"{folder} holds runs, not a model; give one of them: {', '.join(runs)}."
    advice = f"Train one with: dragoman train SOURCE TARGET --out {path}"
    if (folder / "recipe.toml").exists():
        advice = f"A run has one after its first validation; resume it with: dragoman resume {path}"
    return f"{folder} holds no model. {advice}"
