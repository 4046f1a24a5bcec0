"""Names and shapes of the weights of a varied Transformer. This module imports no torch."""

import re

from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.transformer_shapes import Shapes

NORM = re.compile(r"(.*_residual\.norm)\.weight")
ATTENTION = re.compile(r"(.*_attention)\.output\.weight")


def varied_shapes(settings: ModelSettings, shapes: Shapes) -> Shapes:
    """The weights of `VariedTransformer`, from those of a `Transformer` of the same sizes."""
    width, keys = settings.d_model, settings.key_width
    added: Shapes = {}
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
