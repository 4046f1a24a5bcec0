"""The models that can be inspected: those with encoder-decoder attention."""

from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.recurrent import Recurrent
from dragoman.model.transformer import Transformer

InspectedModel = Transformer | Recurrent | Convolutional | Enriched
