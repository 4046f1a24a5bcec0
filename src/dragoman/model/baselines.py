"""The architectures that the paper compares with, and variants of its own."""

from dragoman.model.architectures import check_architecture
from dragoman.model.baseline_shapes import ENRICHED
from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.interface import Model
from dragoman.model.recurrent import Recurrent
from dragoman.model.settings import ModelSettings
from dragoman.model.variants import VariedTransformer


def build_baseline(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Model:
    """As `build_model`, for all but the paper's Transformer."""
    check_architecture(settings)
    if settings.architecture == "transformer":
        return VariedTransformer(settings, source_vocabulary, target_vocabulary)
    if settings.architecture in ENRICHED:
        return Enriched(settings, source_vocabulary, target_vocabulary)
    if settings.architecture == "conv":
        return Convolutional(settings, source_vocabulary, target_vocabulary)
    return Recurrent(settings, source_vocabulary, target_vocabulary)
