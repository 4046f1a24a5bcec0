"""The architectures that the paper compares with, and variants of its own."""

from dragoman.model.convolutional import Convolutional
from dragoman.model.interface import Model
from dragoman.model.recurrent import Recurrent
from dragoman.model.settings import ModelSettings
from dragoman.model.variants import VariedTransformer


def build_baseline(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Model:
    """As `build_model`, for all but the paper's Transformer."""
    if settings.architecture == "transformer":
        return VariedTransformer(settings, source_vocabulary, target_vocabulary)
    if settings.architecture == "conv":
        return Convolutional(settings, source_vocabulary, target_vocabulary)
    return Recurrent(settings, source_vocabulary, target_vocabulary)
