"""The architectures that the paper compares with."""

from dragoman.model.convolutional import Convolutional
from dragoman.model.interface import Model
from dragoman.model.recurrent import Recurrent
from dragoman.model.settings import ModelSettings


def build_baseline(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Model:
    """As `build_model`, for the architectures that are no Transformer."""
    if settings.architecture == "conv":
        return Convolutional(settings, source_vocabulary, target_vocabulary)
    return Recurrent(settings, source_vocabulary, target_vocabulary)
