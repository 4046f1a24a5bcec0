"""What the foreign formats share: tensors of a file, maps of layer names, checks of settings.

Shapes: N positions, V vocabulary, D = d_model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from dragoman.interop.vocabulary import Vocabulary, check_size
from dragoman.model.build import build_model as build_empty_model
from dragoman.model.positions import sinusoids
from dragoman.model.settings import ModelSettings, PositionKind
from dragoman.model.symbols import START
from dragoman.model.transformer import Transformer
from dragoman.model.weights import load_weights, weights
from dragoman.system.device import is_cpu
from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown
from dragoman.text.settings import LANGUAGE_CODE, UNKNOWN_LANGUAGE, Languages
from dragoman.translation.model_folder import Tokenizers

NameMap = Mapping[str, Sequence[str]]
"""From a module's name here to those of the foreign modules whose rows, concatenated, are its rows."""
Value = TypeVar("Value")


class Tensors:
    """The tensors of a foreign file. Each is taken once, in float32, and unused ones are refused."""

    def __init__(self, tensors: Mapping[str, Tensor], origin: Path) -> None:
        """Raises `DragomanError` for a value that is not a tensor."""
        self.origin = origin
        self._unused = dict(tensors)
        for name, tensor in tensors.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor):
                raise DragomanError(
                    f"{origin} has a {type(tensor).__name__} under the name {name!r}, where a tensor was "
                    "expected."
                )

    def __contains__(self, name: str) -> bool:
        return name in self._unused

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape. Raises `DragomanError` if there is no such tensor."""
        if name not in self._unused:
            raise DragomanError(f"{self.origin} lacks the tensor {name}.")
        return tuple(self._unused[name].shape)

    def rows(self, name: str) -> int:
        """The rows of a matrix. Raises `DragomanError` if there is no such tensor, or it is not a matrix."""
        shape = self.shape(name)
        if len(shape) != 2:
            raise DragomanError(f"{self.origin}: {name} has the shape {shape}, and a table was expected.")
        return shape[0]

    def take(self, name: str, shape: Sequence[int], lowest: float | None = None) -> Tensor:
        """Remove and return a tensor, whose elements are raised to `lowest`.

        Raises `DragomanError` if it is missing, has another shape, or its elements are not finite numbers.
        """
        if name not in self._unused:
            raise DragomanError(f"{self.origin} lacks the tensor {name}, of shape {tuple(shape)}.")
        if self.shape(name) != tuple(shape):
            raise DragomanError(
                f"{self.origin}: {name} has the shape {self.shape(name)}, and {tuple(shape)} was expected."
            )
        tensor = self._unused.pop(name)
        is_plain = tensor.layout is torch.strided and is_cpu(tensor.device)
        if not is_plain or not tensor.is_floating_point():
            raise DragomanError(
                f"{self.origin}: {name} is a tensor of {tensor.dtype} ({tensor.layout}, {tensor.device}); "
                "floating-point numbers were expected. Quantised models cannot be read."
            )
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise DragomanError(
                f"{self.origin}: {name} says that it is larger than its data, as if it was expanded. If "
                "you trust the file, call contiguous() on this tensor, and save it again."
            )
        values = tensor.float() if lowest is None else tensor.float().clamp(min=lowest)
        if not values.isfinite().all():
            raise DragomanError(
                f"{self.origin}: {name} has NaN or infinite numbers; the model's training may have diverged."
            )
        return values

    def discard(self, names: Iterable[str]) -> None:
        """Remove tensors that the model does not need, if they are there."""
        for name in names:
            self._unused.pop(name, None)

    def refuse_unused(self) -> None:
        """Raise `DragomanError` for tensors that are not taken: the model is not what its settings say."""
        if self._unused:
            first, *others = sorted(self._unused)
            more = f" and {len(others)} more" if others else ""
            raise DragomanError(
                f"{self.origin} has the tensor {first}{more}, which a model of its settings does not."
            )


@contextmanager
def settings_in(origin: Path) -> Iterator[None]:
    """Name the file in the message about a setting that is out of bounds, if it has no name yet.

    Raises the `DragomanError` with that message.
    """
    try:
        yield
    except DragomanError as error:
        if str(error).startswith(str(origin)):
            raise
        raise DragomanError(f"{origin}: {error}") from error


def layer_names(prefix: str, foreign_prefix: str, depth: int, names: NameMap) -> dict[str, list[str]]:
    """The names of one layer, for all layers of an encoder or decoder.

    `prefix` and `foreign_prefix` are the prefixes before a layer's number.
    """
    return {
        f"{prefix}.{number}.{name}": [
            f"{foreign_prefix}.{number}.{foreign_name}" for foreign_name in foreign_names
        ]
        for number in range(depth)
        for name, foreign_names in names.items()
    }


def import_layers(settings: ModelSettings, names: NameMap, tensors: Tensors) -> dict[str, Tensor]:
    """Take the layers in `names`, as tensors of our names and of the shapes that the settings give.

    Raises `DragomanError` as `Tensors.take`.
    """
    try:
        with torch.device("meta"):  # only the shapes are needed
            parameters = weights(Transformer(replace(settings, tied="all"), START, START))
    except DragomanError as error:
        raise DragomanError(f"{tensors.origin}: {error}") from error
    imported = {}
    for module, foreign_modules in names.items():
        for kind in ("weight", "bias"):
            if (name := f"{module}.{kind}") in parameters:
                rows, *columns = parameters[name].shape
                imported[name] = torch.cat(
                    [
                        tensors.take(f"{foreign}.{kind}", (rows // len(foreign_modules), *columns))
                        for foreign in foreign_modules
                    ]
                )
    return imported


def export_layers(model: Transformer, names: NameMap) -> dict[str, Tensor]:
    """The layers in `names` as foreign tensors, with zeros for biases that the model does not have."""
    parameters = weights(model)
    exported: dict[str, Tensor] = {}
    for module, foreign_modules in names.items():
        weight = parameters[f"{module}.weight"]
        for kind, tensor in {
            "weight": weight,
            "bias": parameters.get(f"{module}.bias", torch.zeros(len(weight))),
        }.items():
            exported |= {
                f"{foreign}.{kind}": part.clone()
                for foreign, part in zip(foreign_modules, tensor.chunk(len(foreign_modules)), strict=True)
            }
    return exported


def build_model(
    settings: ModelSettings,
    imported: Mapping[str, Tensor],
    embeddings: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
    vocabularies: tuple[Vocabulary, Vocabulary],
    origin: Path,
) -> Transformer:
    """Build the model from imported layers, embeddings and the bias of the logits [V].

    The embeddings [V D] of the source, the target and the output are in the foreign order of ids. Equal
    embeddings are tied, and attention biases that are all zero are left out. Raises `DragomanError` if the
    tensors do not fit the settings.
    """
    source_vocabulary, target_vocabulary = vocabularies
    source = source_vocabulary.embedding(embeddings[0])
    target, output = (target_vocabulary.embedding(embedding) for embedding in embeddings[1:])
    shared = source_vocabulary.pieces == target_vocabulary.pieces and torch.equal(source, target)
    tensors = {"target_embedding.weight": target, **imported}
    if not torch.equal(output, target):
        settings = replace(settings, tied="none")
        tensors["output.weight"] = output
    else:
        settings = replace(settings, tied="all" if shared else "target")
    if settings.tied != "all":
        tensors["source_embedding.weight"] = source
    output_bias = target_vocabulary.bias(torch.zeros(len(embeddings[2])) if bias is None else bias)
    if output_bias.any():
        settings = replace(settings, output_bias=True)
        tensors["output_bias"] = output_bias
    biases = {
        name for name in tensors if name.endswith(("attention.query_key_value.bias", "attention.output.bias"))
    }
    if not any(tensors[name].any() for name in biases):
        settings = replace(settings, attention_bias=False)
        tensors = {name: tensor for name, tensor in tensors.items() if name not in biases}
    model = build_empty_model(settings, len(source), len(target))
    assert isinstance(model, Transformer)
    load_weights(model, tensors, origin)
    return model.eval()


def check_options(origin: Path, options: Mapping[str, object], required: Mapping[str, object]) -> None:
    """Raise `DragomanError` for the first option that has another value than the required one."""
    for name, value in required.items():
        if name in options and options[name] != value:
            raise DragomanError(
                f"{origin}: {name} is {shown(options[name])}; Dragoman supports only {value!r}."
            )


def check_equal(origin: Path, options: Mapping[str, object], encoder: str, decoder: str) -> None:
    """Raise `DragomanError` if an option of the encoder and one of the decoder have different values."""
    if options[encoder] != options[decoder]:
        raise DragomanError(
            f"{origin}: {encoder} is {shown(options[encoder])} and {decoder} {shown(options[decoder])}; in "
            "Dragoman they are the same."
        )


def map_option(origin: Path, options: Mapping[str, Any], name: str, values: Mapping[str, Value]) -> Value:
    """Our value of an option. Raises `DragomanError` for an option's value that is not among `values`."""
    value = options[name]
    if not isinstance(value, str) or value not in values:
        raise DragomanError(
            f"{origin}: {name} is {shown(value)}; Dragoman supports only {' or '.join(map(repr, values))}."
        )
    return values[value]


def take_embedding(tensors: Tensors, name: str, d_model: int, pieces: Sequence[str], file: Path) -> Tensor:
    """An embedding [V D]. Raises `DragomanError` if the vocabulary in `file` has another size."""
    check_size(file, pieces, tensors.origin, name, tensors.rows(name))
    return tensors.take(name, (len(pieces), d_model))


def check_sinusoids(
    tensors: Tensors, names: Iterable[str], d_model: int, kind: PositionKind, first: int = 0
) -> None:
    """Take tables of sinusoids, where the file has them.

    They have N · D numbers, in any shape; rows before `first` are ignored. Raises `DragomanError` if they are
    not the sinusoids of this kind.
    """
    for name in names:
        if name in tensors:
            stored = tensors.take(name, tensors.shape(name)).flatten()
            expected = sinusoids(max(len(stored) // d_model, 1), d_model, kind).flatten()
            offset = first * d_model
            # The table may have been saved in half precision.
            if len(stored) != len(expected) or not torch.allclose(
                stored[offset:], expected[offset:], atol=5e-3
            ):
                raise DragomanError(
                    f"{tensors.origin}: {name} is not the table of sinusoids that Dragoman computes for this "
                    "model."
                )


@dataclass(frozen=True)
class Imported:
    """An imported model, with its tokenizers and its source and target vocabularies."""

    model: Transformer
    tokenizers: Tokenizers
    vocabularies: tuple[Vocabulary, Vocabulary]
    longest_trained: int | None = None
    """As that of `StoredModel`, if the format has it."""
    languages: Languages = field(default_factory=Languages)
    """Those that the model's files name."""


def languages_named(source: object, target: object) -> Languages:
    """The languages that a model's files name; `und` for what is no code of a language."""
    codes = (
        code if isinstance(code, str) and LANGUAGE_CODE.fullmatch(code) else UNKNOWN_LANGUAGE
        for code in (source, target)
    )
    return Languages(*codes)


def check_exportable(
    name: str, settings: ModelSettings, tokenizers: Tokenizers, allowed: Mapping[str, Sequence[object]]
) -> None:
    """Raise `DragomanError` if a format cannot hold a model of these settings or its tokenizers.

    `name` is the format's. `allowed` are the values that it has for a setting.
    """
    if {settings.key_width, settings.value_width} != {settings.d_model / settings.heads}:
        raise DragomanError(
            f"{name} has heads of width d_model / heads = {settings.d_model / settings.heads:g} alone, and "
            f"this model's d_k is {settings.key_width}, its d_v {settings.value_width}."
        )
    if tokenizers.source.codes or tokenizers.target.codes:
        raise DragomanError(
            f"{name} comes with SentencePiece, and this model's words are cut by subword-nmt's codes."
        )
    for setting, values in allowed.items():
        if (value := getattr(settings, setting)) not in values:
            raise DragomanError(
                f"{name} cannot hold this model: its {setting} is {value!r}, and {name} has "
                f"{' or '.join(map(repr, values))} alone."
            )
