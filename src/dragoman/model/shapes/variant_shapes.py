"""Names and shapes of the weights of a varied Transformer. This module imports no torch."""

import re

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.transformer_shapes import Shapes, linear_shapes

NORM = re.compile(r"(.*_residual\.norm)\.weight")
ATTENTION = re.compile(r"(.*_attention)\.output\.weight")
DECODER_ATTENTION = re.compile(r"decoder\.\d+\.self_attention\.")


def varied_shapes(settings: ModelSettings, shapes: Shapes) -> Shapes:
    """The weights of `VariedTransformer`, from those of a `Transformer` of the same sizes."""
    width, keys = settings.d_model, settings.key_width
    added: Shapes = {}
    if settings.decoder_mixer == "ssru":
        shapes, added = recurrent_decoder_shapes(settings, shapes)
    if settings.concatenate_positions:
        added["combine.weight"] = (width, 2 * width)
    score = {"general": (settings.heads, keys, keys), "additive": (settings.heads, keys)}
    if settings.attention_score in score:
        attentions = [match[1] for name in shapes if (match := ATTENTION.fullmatch(name))]
        added |= {f"{name}.score": score[settings.attention_score] for name in attentions}
    norms = [match[1] for name in shapes if (match := NORM.fullmatch(name))]
    if settings.norm == "batch":
        added |= {f"{name}.{average}": (width,) for name in norms for average in ("mean", "variance")}
    if settings.norm == "none":
        removed = {f"{name}.{kind}" for name in norms for kind in ("weight", "bias")}
        shapes = {name: shape for name, shape in shapes.items() if name not in removed}
    return shapes | added


def recurrent_decoder_shapes(settings: ModelSettings, shapes: Shapes) -> tuple[Shapes, Shapes]:
    """The weights but the decoder's self-attention, and those of the recurrences in its place."""
    width = settings.d_model
    rest = {name: shape for name, shape in shapes.items() if not DECODER_ATTENTION.match(name)}
    added: Shapes = {}
    for name in (f"decoder.{number}.self_attention" for number in range(settings.decoder_layers)):
        added |= linear_shapes(f"{name}.candidate", width, width, bias=False)
        added |= linear_shapes(f"{name}.forget", width, width)
    return rest, added
