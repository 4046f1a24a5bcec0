"""Models of other toolkits, read in memory; and `dragoman.load`, for these and for our own.

Does not import torch: our own models translate without it.
"""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dragoman.interop import hub
from dragoman.model.settings import Precision
from dragoman.native.settings import EngineSettings
from dragoman.system.arguments import path_argument
from dragoman.system.errors import DragomanError, is_out_of_memory
from dragoman.system.toml import overlay
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages, languages_of_name
from dragoman.translation.model_folder import StoredModel, numpy_weights
from dragoman.translation.translator import Translator

if TYPE_CHECKING:
    from dragoman.interop.weights import Imported

Toolkit = Literal["huggingface", "marian", "fairseq", "opennmt-py", "joeynmt"]


def load(
    model: str | os.PathLike[str],
    *,
    device: str | None = None,
    precision: Precision = "float32",
    workers: int | None = None,
) -> Translator:
    """The translator of a run's folder, of a model folder, or of a folder of a MarianMTModel of transformers.

    The last one is converted in memory; `dragoman import` also compares it with transformers, and reads other
    toolkits' models. A model folder or such a model on the Hugging Face hub is downloaded by its name,
    "Helsinki-NLP/opus-mt-en-de" for example, into the hub's cache, unless there is a folder `Helsinki-NLP`.
    The keyword arguments are those of `Translator.load`, which has more of them, and ensembles. Raises
    `DragomanError` as `Translator.load`, for a foreign model that cannot be converted, and if the hub does
    not give it.
    """
    folder = path_argument("model", model)
    if isinstance(model, str) and hub.is_name(model):
        folder = hub.download(model)
    if not is_huggingface(folder):
        return Translator.load(folder, device=device, precision=precision, workers=workers)
    imported = read_model(folder, "huggingface")
    from dragoman.interop.vocabulary import with_pairs

    named = languages_of(imported.languages, languages_of_name(Path(model).name))
    tokenizers, languages, pairs = with_pairs(imported.tokenizers, named)
    stored = StoredModel(
        numpy_weights(imported.model),
        imported.model.settings,
        tokenizers,
        imported.longest_trained,
        languages,
        pairs=pairs,
    )
    return Translator.of([stored], EngineSettings(precision, workers, device=device))


def is_huggingface(folder: Path) -> bool:
    """Whether a folder is one of `save_pretrained`, and not one of ours."""
    has_ours = (folder / "model.toml").exists() or (folder / "model").is_dir()
    return (folder / "config.json").exists() and not has_ours


def read_model(model: Path, origin: Toolkit) -> "Imported":
    """The foreign model, with the languages that its files say, or else its folder's name.

    Raises `DragomanError` if it cannot be read, if an extra is missing, and for a setting of another type
    than a model folder can hold.
    """
    imported = read_files(model, origin)
    table = {name: value for name, value in asdict(imported.model.settings).items() if value is not None}
    overlay(imported.model.settings, table, str(model))
    return replace(imported, languages=languages_of(imported.languages, languages_of_name(model.name)))


def languages_of(*sources: Languages) -> Languages:
    """Each language by itself: that of the first source that knows it."""
    sides = [(one.source, one.target) for one in sources]
    known = ([code for code in side if code != UNKNOWN_LANGUAGE] for side in zip(*sides, strict=True))
    return Languages(*(next(iter(codes), UNKNOWN_LANGUAGE) for codes in known))


def read_files(model: Path, origin: Toolkit) -> "Imported":
    """The foreign model. Raises `DragomanError` if it cannot be read, or if an extra is missing."""
    try:
        if origin == "huggingface":
            from dragoman.interop import huggingface

            return huggingface.read(model)
        if origin == "marian":
            from dragoman.interop import marian

            return marian.read(model)
        if origin == "fairseq":
            from dragoman.interop import fairseq

            return fairseq.read(model)
        if origin == "opennmt-py":
            from dragoman.interop import opennmt_py

            return opennmt_py.read(model)
        from dragoman.interop import joeynmt

        return joeynmt.read(model)
    except DragomanError:
        raise
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:  # settings of unexpected types
        raise DragomanError(
            f"{model} has settings or files that are not as {origin} writes them ({str(error)[:200]})."
        ) from error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise DragomanError(
            f"There is not enough memory to read {model}. Stop other programs, or use a machine "
            "with more memory."
        ) from error
