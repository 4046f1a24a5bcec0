"""Names and shapes of the weights of the baselines, from their settings. This module imports no torch."""

from dragoman.model.settings import ENRICHED, ModelSettings
from dragoman.model.shapes.recurrent_shapes import cell_shapes, recurrent_shapes
from dragoman.model.shapes.transformer_shapes import Shapes, linear_shapes, transformer_shapes
from dragoman.model.shapes.variant_shapes import varied_shapes

"""Architectures that have the Transformer's parts but self-attention (model/enriched.py)."""


def baseline_shapes(settings: ModelSettings, shapes: Shapes) -> Shapes:
    """The weights of a variant's or baseline's model: `shapes` has its embeddings, or a whole Transformer."""
    if settings.architecture == "transformer":
        return varied_shapes(settings, shapes)
    if settings.architecture in ENRICHED:
        return enriched_shapes(settings, shapes)
    if settings.architecture == "conv":
        return shapes | convolutional_shapes(settings)
    return shapes | recurrent_shapes(settings)


def convolutional_shapes(settings: ModelSettings) -> Shapes:
    """The weights of `Convolutional` but its embeddings."""
    width, shapes = settings.d_model, Shapes()
    if settings.positions == "learned":
        tables = "source_positions.table", "target_positions.table"
        shapes |= dict.fromkeys(tables, (settings.max_positions, width))
    for side, depth in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        for name in (f"{side}_input", f"{side}_output"):
            shapes |= linear_shapes(name, width, width)
        for layer in (f"{side}.{number}" for number in range(depth)):
            shapes |= linear_shapes(f"{layer}.convolution.kernel", 2 * width, settings.kernel_width * width)
            for name in ("query", "output") if side == "decoder" else ():
                shapes |= linear_shapes(f"{layer}.attention.{name}", width, width)
    return shapes


def enriched_shapes(settings: ModelSettings, embeddings: Shapes) -> Shapes:
    """The weights of `Enriched`, from those of a Transformer of the same sizes."""
    shapes: Shapes = {}
    for name, shape in (embeddings | transformer_shapes(settings, 0)).items():
        side, number, *_ = name.split(".")
        if name.endswith(".self_attention.output.weight"):
            shapes |= token_mixer_shapes(settings, f"{side}.{number}.token_mixer", side == "encoder")
        elif ".self_attention." not in name:
            shapes[name.replace(".self_attention_residual.", ".token_mixer_residual.")] = shape
    return varied_shapes(settings, shapes)


def token_mixer_shapes(settings: ModelSettings, name: str, encodes: bool) -> Shapes:
    """The weights of the sub-layer in place of self-attention."""
    width, gates = settings.d_model, 4 if settings.architecture == "lstm-enriched" else 3
    if settings.architecture == "conv-enriched":
        return linear_shapes(f"{name}.kernel", 2 * width, settings.kernel_width * width)
    if not encodes:
        return cell_shapes(f"{name}.rnn", "_l0", width, width, gates)
    directions = ("_l0", "_l0_reverse")
    return {
        weight: shape
        for direction in directions
        for weight, shape in cell_shapes(f"{name}.rnn", direction, width, width // 2, gates).items()
    }
