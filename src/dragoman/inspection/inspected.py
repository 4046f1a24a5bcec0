"""The models that can be inspected: those with encoder-decoder attention."""

from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.recurrent import Recurrent
from dragoman.model.symbols import END, START
from dragoman.model.transformer import Transformer
from dragoman.translation.token_ids import encode_sentences
from dragoman.translation.translator import Translator

InspectedModel = Transformer | Recurrent | Convolutional | Enriched


def is_blank(translator: Translator, sentence: str) -> bool:
    """Whether a sentence has no token but END."""
    return len(encode_sentences(translator.tokenizers.source, [sentence])[0]) == 1


def first_token(model: InspectedModel) -> int:
    """The token that the decoder reads first: START or, with `decoder_start = "end"`, END."""
    return END if model.settings.decoder_start == "end" else START
