"""Models of PyTorch to and from their folder."""

from pathlib import Path

import torch

from dragoman.model import weights as checkpoint
from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.model.settings import ModelSettings
from dragoman.translation.model_folder import Stored, Tokenizers, Weights


def weights_of(model: Model) -> Weights:
    """The weights as arrays, in float32 on the CPU; they share memory with those that lie there so."""
    return {name: weight.float().cpu().contiguous().numpy() for name, weight in checkpoint.weights(model).items()}


def save_model(folder: Path, model: Model, settings: ModelSettings, tokenizers: Tokenizers, longest_source: int | None = None) -> None:
    """Write the folder that `Translator.load` reads, in place of what is there.

    `longest_source` is the number of tokens, END included, of the longest source that the model was trained on, where it is known.
    """
    Stored(weights_of(model), settings, tokenizers, longest_source).save(folder)


def load_model(folder: Path) -> tuple[Model, Tokenizers, int | None]:
    """What `save_model` wrote: the model, its vocabularies, and the tokens of the longest source of training, where that is known.

    Raises `DragomanError` where there is no model yet, or where a file is missing, damaged or does not fit the others.
    """
    stored = Stored.load(folder)
    tokenizers = stored.tokenizers
    model = build_model(stored.settings, len(tokenizers.source), len(tokenizers.target))
    tensors = {name: torch.from_numpy(weight) for name, weight in stored.weights.items()}
    checkpoint.load_weights(model, tensors, folder / "model.safetensors")
    return model, tokenizers, stored.longest_source
