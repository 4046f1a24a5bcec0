"""The model folder: weights, settings, vocabularies, manifest. No torch is imported at the top."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors.numpy import save_file

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.weight_shapes import weight_shapes
from dragoman.system.errors import DragomanError
from dragoman.system.files import (
    MANIFEST,
    Arrays,
    array_types,
    check_folder,
    file_hash,
    read_arrays,
    readable_folder,
    write_folder,
)
from dragoman.system.readers import read_json
from dragoman.system.toml import from_table, overlay, read_toml, write_toml
from dragoman.text.settings import UNKNOWN_LANGUAGE, LanguagePair, Languages
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.missing_model import explain_no_model
from dragoman.translation.weight_errors import refuse_weights

if TYPE_CHECKING:
    from dragoman.model.interface import Model

ABOUT = "about.json"  # facts of the training
PAIRS = "pairs"  # in it: the pairs of languages of a model of several
FORMAT = 2
"""The format of a model folder. Folders of earlier formats are read; a later one is refused.

Folders of one pair of languages have format 1, which earlier versions read."""
WEIGHTS, SETTINGS = "model.safetensors", "model.toml"


@dataclass(frozen=True)
class Tokenizers:
    """The vocabularies of both sides; the same object if they share one."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def of(cls, source: Tokenizer, target: Tokenizer) -> "Tokenizers":
        """Two vocabularies, or one if they are equal."""
        return cls(source, source if source == target else target)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """`tokenizer.model`, or `source.model` and `target.model`.

        Raises `DragomanError` if they are missing.
        """
        shared = folder / "tokenizer.model"
        if shared.exists():
            tokenizer = Tokenizer.load(shared)
            return cls(tokenizer, tokenizer)
        return cls(Tokenizer.load(folder / "source.model"), Tokenizer.load(folder / "target.model"))

    def paths(self, folder: Path) -> tuple[Path, Path]:
        """The files of the source's and the target's vocabulary: the same if they share one."""
        names = ("tokenizer", "tokenizer") if self.source is self.target else ("source", "target")
        return folder / f"{names[0]}.model", folder / f"{names[1]}.model"

    def save(self, folder: Path) -> None:
        """Write one file or two."""
        for tokenizer, path in zip((self.source, self.target), self.paths(folder), strict=True):
            tokenizer.save(path)


@dataclass(frozen=True)
class StoredModel:
    """The content of a model folder."""

    weights: Arrays = field(repr=False)
    """Float32, by their names in the model; tied weights once."""
    settings: ModelSettings
    tokenizers: Tokenizers
    longest_trained: int | None = None
    """Tokens, END included, of the longest source that the model was trained on; None if unknown."""
    languages: Languages = field(default_factory=Languages)
    several_sentences: float | None = None
    """Share of the sources of training that have several sentences; None if unknown."""
    pairs: tuple[LanguagePair, ...] = ()
    """The pairs of languages of a model of several; `languages` are those that all have in common."""

    @classmethod
    def load(cls, folder: Path) -> "StoredModel":
        """Read a run's folder, or the model folder itself.

        Raises `DragomanError` if there is no model yet, if a file is missing, damaged or unlisted, and if the
        files do not fit each other.
        """
        folder = model_folder(folder)
        check_folder(folder)
        settings, tokenizers = read_settings(folder), Tokenizers.load(folder)
        check_weights(folder, settings, tokenizers)
        return cls(read_arrays(folder / WEIGHTS), settings, tokenizers, *read_about(folder))

    def save(self, folder: Path) -> None:
        """Write the folder atomically in place of the former one."""

        def write(new: Path) -> None:
            save_file(self.weights, new / WEIGHTS)
            write_toml(self.settings, new / SETTINGS)
            about: dict[str, object] = {
                "format": FORMAT if self.pairs else 1,
                "longest_source": self.longest_trained,
                "source_language": self.languages.source,
                "target_language": self.languages.target,
                "several_sentences": self.several_sentences,
            }
            if self.pairs:
                about[PAIRS] = list(map(asdict, self.pairs))
            write_about(new, about)
            self.tokenizers.save(new)

        write_folder(folder, write)


def model_folder(folder: Path) -> Path:
    """The folder of the model in a run's folder, or the folder itself.

    Raises `DragomanError` if there is no model.
    """
    if (model := readable_folder(folder / "model")).is_dir():
        return model
    if not (folder / SETTINGS).exists():
        raise DragomanError(explain_no_model(folder))
    return folder


def read_settings(folder: Path) -> ModelSettings:
    """The settings in a model folder. Raises `DragomanError` if they are missing or invalid."""
    path = folder / SETTINGS
    table = read_toml(path)
    if not table:
        raise DragomanError(f"{path} is empty; it has to hold the settings of the model.")
    return overlay(ModelSettings(), table, str(path))


class About(NamedTuple):
    """Facts of a model's training, as in `StoredModel`."""

    longest_trained: int | None = None
    languages: Languages = Languages()
    several_sentences: float | None = None
    pairs: tuple[LanguagePair, ...] = ()


def write_about(folder: Path, about: Mapping[str, object]) -> None:
    """Write facts of a model's training for `read_about`."""
    (folder / ABOUT).write_text(json.dumps(about) + "\n")


def read_about(folder: Path) -> About:
    """The facts in `about.json`; unknown ones without it. Raises `DragomanError` if the file is invalid."""
    path = folder / ABOUT
    if not path.exists():
        return About()
    about = read_json(path)
    if not isinstance(about, dict):
        raise DragomanError(f"{path} has to hold an object; it holds {str(about)[:80]!r}.")
    check_format(about, path)
    longest = about.get("longest_source")
    if longest is not None and (type(longest) is not int or not 0 < longest < 2**31):
        raise DragomanError(
            f"{path} has to hold longest_source as a positive whole number; it holds {str(longest)[:80]!r}."
        )
    share = about.get("several_sentences")
    if share is not None and (type(share) not in {int, float} or not 0 <= share <= 1):
        raise DragomanError(
            f"{path} has to hold several_sentences as a number from 0 to 1; it holds {str(share)[:80]!r}."
        )
    codes = [str(about.get(f"{side}_language", UNKNOWN_LANGUAGE))[:80] for side in ("source", "target")]
    try:
        return About(longest, Languages(*codes), share, read_pairs(about.get(PAIRS, []), path))
    except DragomanError as error:
        raise DragomanError(f"{path}: {error}") from error


def read_pairs(tables: object, path: Path) -> tuple[LanguagePair, ...]:
    """The pairs of languages of a model of several. Raises `DragomanError` for something else."""
    if not isinstance(tables, list):
        raise DragomanError(f"{PAIRS} has to be a list, and is {str(tables)[:80]!r}.")
    return tuple(from_table(LanguagePair, table, f"{path}: {PAIRS}", is_complete=True) for table in tables)


def check_format(about: dict[str, Any], path: Path) -> None:
    """Raise `DragomanError` for a folder of a later format. One without a number is from before 0.1."""
    number = about.get("format", FORMAT)
    if type(number) is not int or number < 1:
        raise DragomanError(
            f"{path} has to hold format as a positive whole number; it holds {str(number)[:80]!r}."
        )
    if number > FORMAT:
        raise DragomanError(
            f"{path} says that this folder has format {number}; this version of Dragoman reads formats up to "
            f"{FORMAT}. Install a newer version."
        )


def check_weights(folder: Path, settings: ModelSettings, tokenizers: Tokenizers) -> None:
    """Compare the names, types and shapes in the header of the weights' file with settings and vocabularies.

    Only the header is read, so damaged sizes cost no memory. Raises `DragomanError` with the file, the weight
    or setting, and both values.
    """
    path, vocabularies = folder / WEIGHTS, (len(tokenizers.source), len(tokenizers.target))
    types = array_types(path)
    with suppress(DragomanError):  # of settings that contradict each other
        shapes = weight_shapes(settings, *vocabularies)
        if types == {name: ("F32", shape) for name, shape in shapes.items()}:
            return
    refuse_weights(path, types, folder / SETTINGS, settings, vocabularies)


def model_hash(folder: Path) -> str:
    """A hash of the model's files: that of their manifest."""
    return file_hash(model_folder(folder) / MANIFEST)


# ---- models of PyTorch


def numpy_weights(model: "Model") -> Arrays:
    """The weights as float32 arrays. They share memory with weights that are float32 on the CPU."""
    from dragoman.model.weights import weights

    return {name: weight.float().cpu().contiguous().numpy() for name, weight in weights(model).items()}


def torch_model(stored: StoredModel) -> "Model":
    """The model in PyTorch.

    Raises `DragomanError` if the weights do not fit the settings or the vocabularies.
    """
    import torch

    from dragoman.model.build import build_model
    from dragoman.model.weights import load_weights

    with torch.random.fork_rng(devices=[]):  # the weights of the start are replaced
        model = build_model(stored.settings, len(stored.tokenizers.source), len(stored.tokenizers.target))
    tensors = {name: torch.from_numpy(weight) for name, weight in stored.weights.items()}
    load_weights(model.float(), tensors, Path(WEIGHTS))
    return model


def save_model(
    folder: Path,
    model: "Model",
    settings: ModelSettings,
    tokenizers: Tokenizers,
    longest_trained: int | None = None,
    languages: Languages | None = None,
    several_sentences: float | None = None,
    pairs: tuple[LanguagePair, ...] = (),
) -> None:
    """Write the folder that `Translator.load` reads, in place of the former one.

    The last four are facts of the training, as in `StoredModel`.
    """
    about = longest_trained, languages or Languages(), several_sentences, pairs
    StoredModel(numpy_weights(model), settings, tokenizers, *about).save(folder)
