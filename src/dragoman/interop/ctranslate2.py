"""To CTranslate2, by its own specification classes (extra: dragoman[ctranslate2])."""

from pathlib import Path
from typing import Any

import torch
from ctranslate2.specs import TransformerSpec, common_spec
from torch import Tensor, nn

from dragoman.errors import DragomanError
from dragoman.model.positions import Positions
from dragoman.model.settings import Activation
from dragoman.model.transformer import Transformer

POSITIONS = 1024  # rows of the table that is written, where positions are sinusoids
ACTIVATIONS: dict[Activation, common_spec.Activation] = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "swish": common_spec.Activation.SWISH,
}


def specification(model: Transformer, source_tokens: list[str], target_tokens: list[str]) -> TransformerSpec:
    """The model in CTranslate2's terms, for these vocabularies, whose ids are the places of the tokens.

    Raises `DragomanError` where the format cannot hold the model.
    """
    settings = model.settings
    if {settings.key_width, settings.value_width} != {settings.d_model / settings.heads}:
        raise DragomanError(
            f"CTranslate2 has heads of width d_model / heads = {settings.d_model / settings.heads:g} alone, and this model's d_k is "
            f"{settings.key_width}, its d_v {settings.value_width}."
        )
    spec = TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=ACTIVATIONS[settings.activation],
    )
    _embedding(spec.encoder, spec.encoder.embeddings[0], model.source_embedding, model.source_positions, settings.scale_embeddings)
    _embedding(spec.decoder, spec.decoder.embeddings, model.target_embedding, model.target_positions, settings.scale_embeddings)
    spec.decoder.projection.weight = _array(model.output.weight)
    spec.decoder.projection.bias = _array(torch.zeros(len(target_tokens)) if model.output_bias is None else model.output_bias)
    for theirs, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _self_attention(theirs.self_attention, layer.self_attention, layer.self_attention_residual)
        _feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual)
    for theirs, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _self_attention(theirs.self_attention, layer.self_attention, layer.self_attention_residual)
        _cross_attention(theirs.attention, layer.cross_attention, layer.cross_attention_residual)
        _feed_forward(theirs.ffn, layer.feed_forward, layer.feed_forward_residual)
    if settings.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder_norm)
        _norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.register_source_vocabulary(source_tokens)
    spec.register_target_vocabulary(target_tokens)
    spec.config.add_source_eos = True
    return spec


def write(spec: TransformerSpec, out: Path, quantization: str | None = None) -> None:
    """Write the folder that `ctranslate2.Translator` reads, in float32 or, say, int8. Raises `FileExistsError` where it is there."""
    spec.validate()
    spec.optimize(quantization)
    out.mkdir(parents=True)
    spec.save(str(out))


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()


def _linear(theirs: common_spec.LinearSpec, weight: Tensor, bias: Tensor | None) -> None:
    theirs.weight = _array(weight)
    theirs.bias = _array(torch.zeros(len(weight)) if bias is None else bias)


def _norm(theirs: common_spec.LayerNormSpec, norm: Any) -> None:
    theirs.gamma, theirs.beta = _array(norm.weight), _array(norm.bias)


def _embedding(spec: Any, theirs: common_spec.EmbeddingsSpec, embedding: nn.Embedding, positions: Positions, scaled: bool) -> None:
    theirs.weight = _array(embedding.weight)
    spec.scale_embeddings = scaled
    spec.position_encodings.encodings = _array(positions(0, len(positions.table) if positions.kind == "learned" else POSITIONS))


def _self_attention(theirs: Any, ours: Any, residual: Any) -> None:
    _linear(theirs.linear[0], ours.query_key_value.weight, ours.query_key_value.bias)
    _linear(theirs.linear[1], ours.output.weight, ours.output.bias)
    _norm(theirs.layer_norm, residual.norm)


def _cross_attention(theirs: Any, ours: Any, residual: Any) -> None:
    """Queries apart from keys and values."""
    width = ours.widths[0]
    weight, bias = ours.query_key_value.weight, ours.query_key_value.bias
    _linear(theirs.linear[0], weight[:width], None if bias is None else bias[:width])
    _linear(theirs.linear[1], weight[width:], None if bias is None else bias[width:])
    _linear(theirs.linear[2], ours.output.weight, ours.output.bias)
    _norm(theirs.layer_norm, residual.norm)


def _feed_forward(theirs: Any, ours: Any, residual: Any) -> None:
    _linear(theirs.linear_0, ours.inner.weight, ours.inner.bias)
    _linear(theirs.linear_1, ours.outer.weight, ours.outer.bias)
    _norm(theirs.layer_norm, residual.norm)
