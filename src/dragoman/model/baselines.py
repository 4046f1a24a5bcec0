"""The architectures that the paper compares with, and variants of its own."""

from dragoman.model.baseline_shapes import ENRICHED
from dragoman.model.convolutional import Convolutional
from dragoman.model.enriched import Enriched
from dragoman.model.interface import Model
from dragoman.model.recurrent import Recurrent
from dragoman.model.settings import ModelSettings
from dragoman.model.variants import VariedTransformer

PARTS_OF_A_TRANSFORMER = (
    "decoder_d_ff",
    "d_k",
    "d_v",
    "attention_dropout",
    "source_end",
    "norm",
    "norm_epsilon",
    "activation",
    "attention_bias",
    "output_bias",
    "scale_embeddings",
    "concatenate_positions",
    "residual",
    "neighbourhood",
)
"""Settings that older architectures do not have. They ignore `d_ff` and `heads`, since presets set them."""
OF_CONVOLUTIONS = ("kernel_width", "dilated")
OF_THE_TRANSFORMER = ("neighbourhood", "concatenate_positions", "source_end", "output_bias")
"""Settings of the Transformer alone, also beside enriched models."""


def build_baseline(settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> Model:
    """As `build_model`, for all but the paper's Transformer."""
    if settings.architecture == "transformer":
        return VariedTransformer(settings, source_vocabulary, target_vocabulary)
    if settings.architecture in ENRICHED:
        other = () if settings.architecture == "conv-enriched" else OF_CONVOLUTIONS
        settings.refuse(*OF_THE_TRANSFORMER, *other, "input_feeding")
        return Enriched(settings, source_vocabulary, target_vocabulary)
    if settings.architecture == "conv":
        settings.refuse(*PARTS_OF_A_TRANSFORMER, "attention_score", "input_feeding")
        return Convolutional(settings, source_vocabulary, target_vocabulary)
    settings.refuse(*PARTS_OF_A_TRANSFORMER, *OF_CONVOLUTIONS, "positions", "first_position")
    return Recurrent(settings, source_vocabulary, target_vocabulary)
