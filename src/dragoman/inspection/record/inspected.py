"""The models that can be inspected: those with encoder-decoder attention."""

from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.recurrent import Recurrent
from dragoman.model.symbols import END, START
from dragoman.model.transformer import Transformer
from dragoman.system.errors import DragomanError
from dragoman.translation.token_ids import encode_sentences
from dragoman.translation.translator import Translator

InspectedModel = Transformer | Recurrent | Convolutional | Enriched


def is_blank(translator: Translator, sentence: str) -> bool:
    """Whether a sentence has no token but END."""
    return len(encode_sentences(translator.tokenizers.source, [sentence])[0]) == 1


def first_token(model: InspectedModel) -> int:
    """The token that the decoder reads first: START or, with `decoder_start = "end"`, END."""
    return END if model.settings.decoder_start == "end" else START


def one_model(translator: Translator) -> InspectedModel:
    """The model. Raises `DragomanError` if it is an ensemble, or has a decoder that is not shown."""
    model = translator.torch_backend.model
    if len(model.members) > 1:
        raise DragomanError("An inspection needs one model, not an ensemble; give one run.")
    if not isinstance(model, InspectedModel):
        raise DragomanError(
            "An inspection shows a Transformer, LSTM, GRU, ConvS2S or enriched model, and this model is none "
            "of them."
        )
    if model.settings.decoder_mixer == "ssru":
        raise DragomanError(
            'An inspection does not show a simpler simple recurrent unit (decoder_mixer = "ssru"), which '
            "this model's decoder has in place of self-attention."
        )
    return model


def one_transformer(translator: Translator) -> Transformer:
    """The model. Raises `DragomanError` as `one_model`, and if it has no self-attention."""
    model = one_model(translator)
    if not isinstance(model, Transformer):
        raise DragomanError(
            "This view is of a Transformer's attention, and this model (an LSTM, GRU, ConvS2S or "
            "enriched model) has no self-attention; the beam, cross, stream and model views show it."
        )
    return model
