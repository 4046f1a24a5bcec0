"""The model's folder: weights, settings and vocabularies, all that a translation needs."""

import json
from dataclasses import dataclass
from pathlib import Path

from dragoman.config import overlay, read_toml, write_toml
from dragoman.errors import DragomanError
from dragoman.model.build import build_model
from dragoman.model.contract import Model
from dragoman.model.settings import ModelSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.training import checkpoint

ABOUT = "about.json"  # what is known of the training


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


def save_model(folder: Path, model: Model, settings: ModelSettings, tokenizers: Tokenizers, longest_source: int | None = None) -> None:
    """Write the folder that `Translator.load` reads, in place of what is there.

    `longest_source` is the number of tokens, END included, of the longest source that the model was trained on, where it is known.
    """

    def write(new: Path) -> None:
        checkpoint.save_tensors(new / "model.safetensors", checkpoint.weights(model))
        write_toml(settings, new / "model.toml")
        (new / ABOUT).write_text(json.dumps({"longest_source": longest_source}) + "\n")
        tokenizers.save(new)

    checkpoint.write_folder(folder, write)


def model_folder(folder: Path) -> Path:
    """The folder of the model in a run's folder, or the folder itself. Raises `DragomanError` where there is no model."""
    if (whole := checkpoint.whole_folder(folder / "model")).is_dir():
        return whole
    if not (folder / "model.toml").exists():
        raise DragomanError(f"{folder} holds no model. Train one with: dragoman train --out {folder} --source … --target …")
    return folder


def settings_of(folder: Path) -> ModelSettings:
    """The settings of the model in its folder."""
    return overlay(ModelSettings(), read_toml(folder / "model.toml"), str(folder / "model.toml"))


def identity(folder: Path) -> str:
    """A hash of the model's files: that of their manifest."""
    return checkpoint.file_hash(model_folder(folder) / checkpoint.MANIFEST)


def load_model(folder: Path) -> tuple[Model, Tokenizers, int | None]:
    """What `save_model` wrote: the model, its vocabularies, and the tokens of the longest source of training, where that is known.

    Raises `DragomanError` where there is no model yet, or where a file is missing, damaged or does not fit the others.
    """
    folder = model_folder(folder)
    checkpoint.check_folder(folder)
    tokenizers = Tokenizers.load(folder)
    model = build_model(settings_of(folder), len(tokenizers.source), len(tokenizers.target))
    path = folder / "model.safetensors"
    checkpoint.load_weights(model, checkpoint.load_tensors(path), path)
    about = json.loads((folder / ABOUT).read_text()) if (folder / ABOUT).exists() else {}
    return model, tokenizers, about.get("longest_source")
