"""Which settings each architecture has. Does not import torch: it is for recipes, too."""

from dragoman.model.settings import ModelSettings
from dragoman.system.errors import OptionError
from dragoman.system.options import check_rules

OF_EVERY_PRESET = ("d_ff", "heads")
"""An LSTM, a GRU and ConvS2S do not have these, but every preset sets them: they are ignored, and refused as
options."""


def check_architecture(settings: ModelSettings) -> None:
    """Raise `OptionError` for a setting that the architecture lacks, or for two that exclude each other."""
    check_rules(settings)
    if settings.architecture in ("lstm-enriched", "gru-enriched") and settings.d_model % 2:
        raise OptionError(
            f"{{d_model}} {settings.d_model} is odd, and an encoder of {settings.architecture} has two "
            "directions of half the width; choose an even number."
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
