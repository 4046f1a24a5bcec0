"""Why the weights of a model folder do not fit its settings and vocabularies. No torch is imported."""

import re
from collections.abc import Iterable
from pathlib import Path

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.weight_shapes import weight_shapes
from dragoman.system.errors import DragomanError

LAYER = re.compile(r"(encoder|decoder)\.(?:weight_ih_l)?(\d+)(?:\.|$)")  # of a Transformer, LSTM or GRU


def refuse_weights(
    path: Path,
    types: dict[str, tuple[str, tuple[int, ...]]],
    settings_path: Path,
    settings: ModelSettings,
    vocabularies: tuple[int, int],
) -> None:
    """Raise `DragomanError` with the first setting or weight that does not fit, and both values.

    `types` are the types and shapes of the weights in the file `path`. The vocabularies are given by their
    sizes, the source's first.
    """
    for side, count in count_layers(types).items():
        if (layers := getattr(settings, f"{side}_layers")) != count:
            raise DragomanError(
                f"{settings_path}: {side}_layers is {layers}, and {path.name} has weights of {count}."
            )
    embedding = types.get("target_embedding.weight", ("", ()))[1]
    if len(embedding) == 2 and embedding[1] != settings.d_model:
        raise DragomanError(
            f"{settings_path}: d_model is {settings.d_model}, and the embeddings in {path.name} "
            f"have {embedding[1]} features."
        )
    shapes = weight_shapes(settings, *vocabularies)
    if missing := sorted(shapes.keys() - types.keys()):
        raise DragomanError(f"{path} lacks {first_names(missing)}, which the model's settings ask for.")
    if unknown := sorted(types.keys() - shapes.keys()):
        raise DragomanError(f"{path} has {first_names(unknown)}, which a model of these settings does not.")
    for name, shape in shapes.items():
        kind, stored_shape = types[name]
        if stored_shape != shape:
            raise DragomanError(
                f"{path}: {name} has the shape {stored_shape}; the settings and vocabularies give {shape}."
            )
        if kind != "F32":
            raise DragomanError(f"{path}: {name} is of the type {kind}; it has to be F32.")


def first_names(names: list[str]) -> str:
    """The first names of a list that may be long, shortened."""
    return ", ".join(name[:80] for name in names[:5]) + (
        f" and {len(names) - 5} more" if len(names) > 5 else ""
    )


def count_layers(names: Iterable[str]) -> dict[str, int]:
    """The numbers of encoder and decoder layers to which weights of these names belong."""
    layers = {match.groups() for name in names if (match := LAYER.match(name))}
    return {side: sum(layer_side == side for layer_side, _ in layers) for side in ("encoder", "decoder")}
