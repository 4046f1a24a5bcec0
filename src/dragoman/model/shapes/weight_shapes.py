"""Names and shapes of a model's weights, from its settings. This module imports no torch.

Weights of a file are compared with these before memory is allocated for a model.
"""

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.baseline_shapes import baseline_shapes
from dragoman.model.shapes.transformer_shapes import Shapes, transformer_shapes


def weight_shapes(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Shapes:
    """Each weight's name and shape, as `build_model(...).named_parameters()` has them; tied weights once.

    Raises `DragomanError` if the settings contradict each other or the vocabularies.
    """
    settings.check_vocabularies(source_vocabulary, target_vocabulary)
    width = settings.d_model
    shapes: Shapes = {"target_embedding.weight": (target_vocabulary, width)}
    if settings.tied != "all":
        shapes["source_embedding.weight"] = (source_vocabulary, width)
    if settings.tied == "none":
        shapes["output.weight"] = (target_vocabulary, width)
    if settings.architecture == "transformer":
        shapes |= transformer_shapes(settings, target_vocabulary)
        if not settings.variants:
            return shapes
    return baseline_shapes(settings, shapes)
