"""The model of some settings: the paper's, a variant of it, or an architecture that it compares with."""

from dragoman.model.architectures import check_architecture
from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.interface import Model
from dragoman.model.recurrent import Recurrent
from dragoman.model.settings import ENRICHED, ModelSettings
from dragoman.model.transformer import Transformer
from dragoman.model.variants import VariedTransformer


def build_model(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Model:
    """A model with fresh weights for vocabularies of these sizes.

    Raises `DragomanError` if the settings contradict each other or the sizes.
    """
    if settings.architecture == "transformer" and not settings.variants:
        return Transformer(settings, source_vocabulary, target_vocabulary)
    check_architecture(settings)
    if settings.architecture == "transformer":
        return VariedTransformer(settings, source_vocabulary, target_vocabulary)
    if settings.architecture in ENRICHED:
        return Enriched(settings, source_vocabulary, target_vocabulary)
    if settings.architecture == "conv":
        return Convolutional(settings, source_vocabulary, target_vocabulary)
    return Recurrent(settings, source_vocabulary, target_vocabulary)
