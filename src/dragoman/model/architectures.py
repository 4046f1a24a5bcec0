"""Which settings each architecture has. Does not import torch: it is for recipes, too."""

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.baseline_shapes import ENRICHED
from dragoman.system.errors import OptionError

PARTS_OF_A_TRANSFORMER = (
    "decoder_d_ff",
    "d_k",
    "d_v",
    "attention_dropout",
    "decoder_start",
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
    "alignment_head",
)
"""Settings of Transformers and enriched models, which an LSTM, a GRU and ConvS2S do not have."""
OF_EVERY_PRESET = ("d_ff", "heads")
"""They do not have these either, but every preset sets them: they are ignored, and refused as options."""
OF_CONVOLUTIONS = ("kernel_width", "dilated")
OF_THE_TRANSFORMER = ("neighbourhood", "concatenate_positions", "decoder_start", "source_end", "output_bias")
"""Settings of the Transformer alone, also beside enriched models."""


def check_architecture(settings: ModelSettings) -> None:
    """Raise `DragomanError` for a setting that the architecture lacks, or for two that exclude each other."""
    if settings.architecture == "transformer":
        settings.refuse(*OF_CONVOLUTIONS, "input_feeding")
    elif settings.architecture in ENRICHED:
        other = () if settings.architecture == "conv-enriched" else OF_CONVOLUTIONS
        settings.refuse(*OF_THE_TRANSFORMER, *other, "input_feeding")
    elif settings.architecture == "conv":
        settings.refuse(*PARTS_OF_A_TRANSFORMER, "attention_score", "input_feeding")
    else:
        settings.refuse(*PARTS_OF_A_TRANSFORMER, *OF_CONVOLUTIONS, "positions", "first_position")
    if settings.neighbourhood is not None and settings.attention_score is not None:
        raise OptionError(
            "Restricted self-attention has scaled dot products, and {attention_score} is {score}; leave "
            "{neighbourhood} or {attention_score} out.",
            score=settings.attention_score,
        )
    if settings.architecture in ("lstm-enriched", "gru-enriched") and settings.d_model % 2:
        raise OptionError(
            "{d_model} {width} is odd, and an encoder of {kind} has two directions of half the width; choose "
            "an even number.",
            width=settings.d_model,
            kind=settings.architecture,
        )


def refuse_ignored(settings: ModelSettings, explicit: set[str]) -> None:
    """Raise `DragomanError` for an explicit setting that the architecture ignores."""
    if settings.architecture in ("lstm", "gru", "conv"):
        for name in OF_EVERY_PRESET:
            if name in explicit:
                raise OptionError(
                    f"The architecture {settings.architecture} has no {{{name}}}; leave it out, or choose "
                    "another preset."
                )
