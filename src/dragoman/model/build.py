"""Settings to model: the one place that knows which architectures there are."""

from dragoman.model.interface import Model
from dragoman.model.recurrent import Recurrent
from dragoman.model.settings import Architecture, ModelSettings
from dragoman.model.transformer import Transformer

ARCHITECTURES: dict[Architecture, type[Transformer] | type[Recurrent]] = {
    "transformer": Transformer,
    "lstm": Recurrent,
    "gru": Recurrent,
}


def build_model(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Model:
    """A model with fresh weights for vocabularies of these sizes.

    Raises `DragomanError` if the settings contradict them.
    """
    return ARCHITECTURES[settings.architecture](settings, source_vocabulary, target_vocabulary)
