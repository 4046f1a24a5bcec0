"""Names and shapes of the weights of the baselines, from their settings. This module imports no torch."""

from dragoman.model.recurrent_shapes import recurrent_shapes
from dragoman.model.settings import ModelSettings
from dragoman.model.shapes import Shapes, linear_shapes
from dragoman.model.variant_shapes import varied_shapes


def baseline_shapes(settings: ModelSettings, shapes: Shapes) -> Shapes:
    """The weights of `build_baseline`'s model: `shapes` has its embeddings, or a whole Transformer."""
    if settings.architecture == "transformer":
        return varied_shapes(settings, shapes)
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
