"""Names and shapes of the weights of an LSTM or GRU, from its settings. This module imports no torch."""

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.transformer_shapes import Shapes, linear_shapes


def recurrent_shapes(settings: ModelSettings) -> Shapes:
    """The weights of `Recurrent` but its embeddings."""
    width, gates = settings.d_model, 4 if settings.architecture == "lstm" else 3
    fed = width if settings.input_feeding else 0
    shapes = linear_shapes("start", settings.decoder_layers * width, 2 * width)
    shapes |= linear_shapes("features", width, 4 * width)
    if settings.attention_score != "dot":
        shapes |= linear_shapes("attention.key", width, 2 * width, bias=False)
    if settings.attention_score not in ("dot", "general"):
        shapes |= linear_shapes("attention.query", width, width)
        shapes |= linear_shapes("attention.score", 1, width, bias=False)

    for layer in range(settings.encoder_layers):
        for direction in ("", "_reverse"):
            shapes |= cell_shapes(
                "encoder", f"_l{layer}{direction}", 2 * width if layer else width, width, gates
            )
    for layer in range(settings.decoder_layers):
        shapes |= cell_shapes(f"decoder.{layer}", "", width if layer else 3 * width + fed, width, gates)
    return shapes


def cell_shapes(prefix: str, suffix: str, inputs: int, width: int, gates: int) -> Shapes:
    """A layer of an LSTM (4 gates) or GRU (3) in one direction."""
    sizes = {"weight_ih": (inputs,), "weight_hh": (width,), "bias_ih": (), "bias_hh": ()}
    return {f"{prefix}.{name}{suffix}": (gates * width, *rest) for name, rest in sizes.items()}
