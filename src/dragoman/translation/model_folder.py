"""The model's folder: weights, settings and vocabularies, all that a translation needs. No torch here."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from dragoman.model.settings import ModelSettings
from dragoman.system.errors import DragomanError
from dragoman.system.files import MANIFEST, check_folder, file_hash, readable_folder, write_folder
from dragoman.system.toml import overlay, read_toml, write_toml
from dragoman.text.tokenizer import Tokenizer

ABOUT = "about.json"  # what is known of the training
Weights = dict[str, npt.NDArray[np.float32]]  # by their names in the model, each once: tied weights are one


@dataclass(frozen=True)
class Tokenizers:
    """The vocabularies of both sides; the same object where they share one."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def of(cls, source: Tokenizer, target: Tokenizer) -> "Tokenizers":
        """Two vocabularies, or one where they are the same."""
        return cls(source, source if source == target else target)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """`tokenizer.model`, or `source.model` and `target.model`. Raises `DragomanError` where they are not there."""
        shared = folder / "tokenizer.model"
        if shared.exists():
            tokenizer = Tokenizer.load(shared)
            return cls(tokenizer, tokenizer)
        return cls(Tokenizer.load(folder / "source.model"), Tokenizer.load(folder / "target.model"))

    def paths(self, folder: Path) -> tuple[Path, Path]:
        """The files of the source's and the target's vocabulary: the same where they share one."""
        names = ("tokenizer", "tokenizer") if self.source is self.target else ("source", "target")
        return folder / f"{names[0]}.model", folder / f"{names[1]}.model"

    def save(self, folder: Path) -> None:
        """Write one file or two."""
        for tokenizer, path in zip((self.source, self.target), self.paths(folder), strict=True):
            tokenizer.save(path)


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Named arrays of a file of safetensors. Raises `DragomanError` with its name where it is damaged."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise DragomanError(f"{path} cannot be read: {error}.") from error


@dataclass(frozen=True)
class Stored:
    """What a model's folder holds."""

    weights: Weights
    settings: ModelSettings
    tokenizers: Tokenizers
    longest_source: int | None = None
    """Tokens, END included, of the longest source that the model was trained on, where it is known."""

    @classmethod
    def load(cls, folder: Path) -> "Stored":
        """Read a run's folder, or the model's.

        Raises `DragomanError` where there is no model yet, or where a file is missing or damaged.
        """
        folder = model_folder(folder)
        check_folder(folder)
        tokenizers, weights = Tokenizers.load(folder), read_arrays(folder / "model.safetensors")
        about = json.loads((folder / ABOUT).read_text()) if (folder / ABOUT).exists() else {}
        return cls(weights, settings_of(folder), tokenizers, about.get("longest_source"))

    def save(self, folder: Path) -> None:
        """Write such a folder in place of what is there."""

        def write(new: Path) -> None:
            save_file(self.weights, new / "model.safetensors")
            write_toml(self.settings, new / "model.toml")
            (new / ABOUT).write_text(json.dumps({"longest_source": self.longest_source}) + "\n")
            self.tokenizers.save(new)

        write_folder(folder, write)


def model_folder(folder: Path) -> Path:
    """The folder of the model in a run's folder, or the folder itself. Raises `DragomanError` where there is no model."""
    if (whole := readable_folder(folder / "model")).is_dir():
        return whole
    if not (folder / "model.toml").exists():
        raise DragomanError(f"{folder} holds no model. Train one with: dragoman train --out {folder} --source … --target …")
    return folder


def settings_of(folder: Path) -> ModelSettings:
    """The settings of the model in its folder."""
    return overlay(ModelSettings(), read_toml(folder / "model.toml"), str(folder / "model.toml"))


def identity(folder: Path) -> str:
    """A hash of the model's files: that of their manifest."""
    return file_hash(model_folder(folder) / MANIFEST)
