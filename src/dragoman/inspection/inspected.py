"""The models that can be inspected: those with encoder-decoder attention."""

from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.recurrent import Recurrent
from dragoman.model.symbols import END, START
from dragoman.model.transformer import Transformer

InspectedModel = Transformer | Recurrent | Convolutional | Enriched


def first_token(model: InspectedModel) -> int:
    """The token that the decoder reads first: START or, with `decoder_start = "end"`, END."""
    return END if model.settings.decoder_start == "end" else START
