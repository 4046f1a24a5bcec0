"""What foreign formats share: a file's tensors, each taken once, and maps of names between their layers and
ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from dragoman.interop.vocabulary import Vocabulary
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import START
from dragoman.model.transformer import Transformer
from dragoman.model.weights import load_weights, weights
from dragoman.system.errors import DragomanError
from dragoman.translation.model_folder import Tokenizers

Names = Mapping[str, Sequence[str]]
"""Our module's name, and those of the foreign modules whose rows are its rows, one after the other."""


class Tensors:
    """The tensors of a foreign file, in float32.

    What is taken is checked; what is left at the end is refused.
    """

    def __init__(self, tensors: Mapping[str, Tensor], origin: Path) -> None:
        """Raises `DragomanError` for what is no tensor."""
        self.origin = origin
        self._left = dict(tensors)
        for name, tensor in tensors.items():
            if not isinstance(name, str) or not isinstance(tensor, Tensor):
                raise DragomanError(
                    f"{origin} has a {type(tensor).__name__} under the name {name!r}, where a tensor was "
                    "expected."
                )

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def shape(self, name: str) -> tuple[int, ...]:
        """Raises `DragomanError` if there is no such tensor."""
        if name not in self._left:
            raise DragomanError(f"{self.origin} lacks the tensor {name}.")
        return tuple(self._left[name].shape)

    def rows(self, name: str) -> int:
        """The length of a table. Raises `DragomanError` if there is no such tensor, or it is no table."""
        shape = self.shape(name)
        if len(shape) != 2:
            raise DragomanError(f"{self.origin}: {name} has the shape {shape}, and a table was expected.")
        return shape[0]

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """The tensor. Raises `DragomanError` if it is not there or has another shape, with both shapes."""
        if name not in self._left:
            raise DragomanError(f"{self.origin} lacks the tensor {name}, of shape {tuple(shape)}.")
        if self.shape(name) != tuple(shape):
            raise DragomanError(
                f"{self.origin}: {name} has the shape {self.shape(name)}, and {tuple(shape)} was expected."
            )
        return self._left.pop(name).float()

    def leave(self, names: Iterable[str]) -> None:
        """Tensors that say nothing that is not known without them."""
        for name in names:
            self._left.pop(name, None)

    def refuse_rest(self) -> None:
        """Raise `DragomanError` for tensors that nobody has taken: they belong to another model than was
        thought.
        """
        if self._left:
            first, *others = sorted(self._left)
            more = f" and {len(others)} more" if others else ""
            raise DragomanError(
                f"{self.origin} has the tensor {first}{more}, which a model of its settings does not."
            )


def layers(ours: str, theirs: str, depth: int, parts: Names) -> dict[str, list[str]]:
    """Names of all layers of a side, where `ours` and `theirs` stand before a layer's number."""
    return {
        f"{ours}.{number}.{our}": [f"{theirs}.{number}.{their}" for their in part]
        for number in range(depth)
        for our, part in parts.items()
    }


def import_layers(settings: ModelSettings, names: Names, tensors: Tensors) -> dict[str, Tensor]:
    """Our tensors of the layers in `names`, of the shapes that the settings give.

    Raises `DragomanError` as `Tensors.take`.
    """
    try:
        with torch.device("meta"):  # for the shapes alone
            own = weights(Transformer(replace(settings, tied="all"), START, START))
    except DragomanError as error:
        raise DragomanError(f"{tensors.origin}: {error}") from error
    imported = {}
    for our, theirs in names.items():
        for kind in ("weight", "bias"):
            if (name := f"{our}.{kind}") in own:
                rows, *columns = own[name].shape
                imported[name] = torch.cat(
                    [tensors.take(f"{their}.{kind}", (rows // len(theirs), *columns)) for their in theirs]
                )
    return imported


def export_layers(model: Transformer, names: Names) -> dict[str, Tensor]:
    """The foreign tensors of the layers in `names`; zeros for biases that this model does not have."""
    own = weights(model)
    exported: dict[str, Tensor] = {}
    for our, theirs in names.items():
        weight = own[f"{our}.weight"]
        for kind, whole in {
            "weight": weight,
            "bias": own.get(f"{our}.bias", torch.zeros(len(weight))),
        }.items():
            exported |= {
                f"{their}.{kind}": part.clone()
                for their, part in zip(theirs, whole.chunk(len(theirs)), strict=True)
            }
    return exported


def model_of(
    settings: ModelSettings,
    imported: Mapping[str, Tensor],
    embeddings: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
    vocabularies: tuple[Vocabulary, Vocabulary],
    origin: Path,
) -> Transformer:
    """The model with these layers and, in the foreign order of ids, these embeddings: of the source, of the
    target, of the logits.

    What is tied shows in the numbers, and biases that are all zero are left out. Raises `DragomanError` if
    names do not fit.
    """
    of_source, of_target = vocabularies
    source, target, output = (
        of_source.embedding(embeddings[0]),
        of_target.embedding(embeddings[1]),
        of_target.embedding(embeddings[2]),
    )
    shared = of_source.pieces == of_target.pieces and torch.equal(source, target)
    tensors = {"target_embedding.weight": target, **imported}
    if not torch.equal(output, target):
        settings = replace(settings, tied="none")
        tensors["output.weight"] = output
    else:
        settings = replace(settings, tied="all" if shared else "target")
    if settings.tied != "all":
        tensors["source_embedding.weight"] = source
    logits = of_target.bias(torch.zeros(len(embeddings[2])) if bias is None else bias)
    if logits.any():
        settings = replace(settings, output_bias=True)
        tensors["output_bias"] = logits
    biases = {
        name for name in tensors if name.endswith(("attention.query_key_value.bias", "attention.output.bias"))
    }
    if not any(tensors[name].any() for name in biases):
        settings = replace(settings, attention_bias=False)
        tensors = {name: tensor for name, tensor in tensors.items() if name not in biases}
    model = Transformer(settings, len(source), len(target))
    load_weights(model, tensors, origin)
    return model.eval()


def refuse(origin: Path, found: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    """Raise `DragomanError` for the first setting of a foreign model that has a value that we cannot hold."""
    for name, value in wanted.items():
        if name in found and found[name] != value:
            raise DragomanError(
                f"{origin}: {name} is {found[name]!r}; Dragoman can hold models with {value!r} alone."
            )


@dataclass(frozen=True)
class Imported:
    """A foreign model as ours: with its vocabularies, and the foreign rows of our ids, by which it can be
    compared.
    """

    model: Transformer
    tokenizers: Tokenizers
    vocabularies: tuple[Vocabulary, Vocabulary]


def refuse_to_hold(
    name: str, settings: ModelSettings, tokenizers: Tokenizers, wanted: Mapping[str, Sequence[object]]
) -> None:
    """Raise `DragomanError` if a foreign format cannot hold a model of these settings or its vocabularies,
    with the reason.
    """
    if {settings.key_width, settings.value_width} != {settings.d_model / settings.heads}:
        raise DragomanError(
            f"{name} has heads of width d_model / heads = {settings.d_model / settings.heads:g} alone, and "
            "this model's d_k is "
            f"{settings.key_width}, its d_v {settings.value_width}."
        )
    if tokenizers.source.codes or tokenizers.target.codes:
        raise DragomanError(
            f"{name} comes with SentencePiece, and this model's words are cut by subword-nmt's codes."
        )
    for setting, values in wanted.items():
        if (value := getattr(settings, setting)) not in values:
            told = " or ".join(map(repr, values))
            raise DragomanError(
                f"{name} cannot hold this model: its {setting} is {value!r}, and {told} is all that there "
                "is there."
            )
