"""Export to CTranslate2, by its own specification classes (extra: dragoman[ctranslate2])."""

from pathlib import Path
from typing import Any

import ctranslate2
import sentencepiece
import torch
from ctranslate2.specs import TransformerSpec, common_spec
from torch import Tensor, nn

from dragoman.interop.verify import ReferenceEngine
from dragoman.interop.weights import check_exportable
from dragoman.model.positions import Positions
from dragoman.model.settings import Activation, Precision
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import Transformer
from dragoman.translation.model_folder import Tokenizers

POSITIONS = 1024  # tokens of the longest text of a model with sinusoids: rows of the table in the file
ACTIVATIONS: dict[Activation, common_spec.Activation] = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "swish": common_spec.Activation.SWISH,
}


def write(model: Transformer, tokenizers: Tokenizers, folder: Path, precision: Precision = "float32") -> None:
    """Write a folder that `ctranslate2.Translator` reads, with the SentencePiece models of both sides.

    Raises `DragomanError` if the format cannot hold the model.
    """
    write_model(model, tokenizers, folder, precision)
    for side, tokenizer in (("source", tokenizers.source), ("target", tokenizers.target)):
        (folder / f"{side}.spm").write_bytes(tokenizer.model)


def write_model(model: Transformer, tokenizers: Tokenizers, folder: Path, precision: Precision) -> None:
    """Write the folder without SentencePiece models. Raises as `write`."""
    check_exportable("CTranslate2", model.settings, tokenizers, {})
    spec = specification(
        model, *(side.pieces(range(len(side))) for side in (tokenizers.source, tokenizers.target))
    )
    spec.validate()
    spec.optimize(precision)
    spec.save(str(folder))


def specification(model: Transformer, source_tokens: list[str], target_tokens: list[str]) -> TransformerSpec:
    """CTranslate2's specification of the model, for these vocabularies in the order of their ids."""
    settings = model.settings
    spec = TransformerSpec.from_config(
        (settings.encoder_layers, settings.decoder_layers),
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=ACTIVATIONS[settings.activation],
    )
    _embedding(
        spec.encoder,
        spec.encoder.embeddings[0],
        model.source_embedding,
        model.source_positions,
        settings.scale_embeddings,
    )
    _embedding(
        spec.decoder,
        spec.decoder.embeddings,
        model.target_embedding,
        model.target_positions,
        settings.scale_embeddings,
    )
    spec.decoder.projection.weight = _array(model.output.weight)
    spec.decoder.projection.bias = _array(
        torch.zeros(len(target_tokens)) if model.output_bias is None else model.output_bias
    )
    for layer_spec, layer in zip(spec.encoder.layer, model.encoder, strict=True):
        _self_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_residual)
        _feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual)
    for layer_spec, layer in zip(spec.decoder.layer, model.decoder, strict=True):
        _self_attention(layer_spec.self_attention, layer.self_attention, layer.self_attention_residual)
        _cross_attention(layer_spec.attention, layer.cross_attention, layer.cross_attention_residual)
        _feed_forward(layer_spec.ffn, layer.feed_forward, layer.feed_forward_residual)
    if settings.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder_norm)
        _norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.register_source_vocabulary(source_tokens)
    spec.register_target_vocabulary(target_tokens)
    spec.config.add_source_eos = settings.source_end
    spec.config.decoder_start_token, spec.config.eos_token = target_tokens[START], target_tokens[END]
    spec.config.unk_token = target_tokens[UNKNOWN]
    spec.config.layer_norm_epsilon = settings.norm_epsilon
    return spec


def engine(
    folder: Path,
    model: Transformer,
    tokenizers: Tokenizers,
    precision: Precision,
    spm_files: tuple[str, str] = ("source.spm", "target.spm"),
) -> ReferenceEngine:
    """CTranslate2 with the folder that `write` wrote for this model. `spm_files` are relative to it.

    It multiplies in float32 also where the weights are quantised: its sums of int8 products overflow on some
    processors (docs/interop.md).
    """
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    source_spm, target_spm = (
        sentencepiece.SentencePieceProcessor(model_file=str(folder / file)) for file in spm_files
    )
    target_ids = {
        piece: number for number, piece in enumerate(tokenizers.target.pieces(range(len(tokenizers.target))))
    }
    suppressed = [[piece] for piece in tokenizers.target.pieces([PAD, START])]

    def log_probs(source: list[int], target: list[int]) -> Tensor:
        [result] = translator.score_batch(
            [tokenizers.source.pieces(source[:-1])], [tokenizers.target.pieces(target[:-1])]
        )
        return torch.tensor(result.log_probs)

    def greedy(source: list[int], max_length: int) -> list[int]:
        [result] = translator.translate_batch(
            [tokenizers.source.pieces(source[:-1])],
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=max_length,
            suppress_sequences=suppressed,
        )
        return [target_ids[piece] for piece in result.hypotheses[0]]

    return ReferenceEngine(
        name="CTranslate2",
        encode=lambda text: [*source_spm.encode(text), END],
        log_probs=log_probs,
        greedy=greedy,
        decode=target_spm.decode,
        first_ids=range(len(tokenizers.source)),
        longest=table_rows(model.source_positions),
        quantized=precision != "float32",
    )


def table_rows(positions: Positions) -> int:
    """Rows of the table of positions in the file: tokens of the longest text."""
    return len(positions.table) if positions.kind == "learned" else POSITIONS


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().clone().numpy()  # spec.optimize writes into its arrays


def _linear(spec: common_spec.LinearSpec, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _array(weight)
    spec.bias = _array(torch.zeros(len(weight)) if bias is None else bias)


def _norm(spec: common_spec.LayerNormSpec, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _embedding(
    spec: Any,
    embedding_spec: common_spec.EmbeddingsSpec,
    embedding: nn.Embedding,
    positions: Positions,
    scaled: bool,
) -> None:
    embedding_spec.weight = _array(embedding.weight)
    spec.scale_embeddings = scaled
    spec.position_encodings.encodings = _array(positions(0, table_rows(positions)))


def _self_attention(spec: Any, attention: Any, residual: Any) -> None:
    _linear(spec.linear[0], attention.query_key_value.weight, attention.query_key_value.bias)
    _linear(spec.linear[1], attention.output.weight, attention.output.bias)
    _norm(spec.layer_norm, residual.norm)


def _cross_attention(spec: Any, attention: Any, residual: Any) -> None:
    """CTranslate2 keeps W^Q in one matrix, and W^K and W^V in another."""
    width = attention.widths[0]
    weight, bias = attention.query_key_value.weight, attention.query_key_value.bias
    _linear(spec.linear[0], weight[:width], None if bias is None else bias[:width])
    _linear(spec.linear[1], weight[width:], None if bias is None else bias[width:])
    _linear(spec.linear[2], attention.output.weight, attention.output.bias)
    _norm(spec.layer_norm, residual.norm)


def _feed_forward(spec: Any, feed_forward: Any, residual: Any) -> None:
    _linear(spec.linear_0, feed_forward.inner.weight, feed_forward.inner.bias)
    _linear(spec.linear_1, feed_forward.outer.weight, feed_forward.outer.bias)
    _norm(spec.layer_norm, residual.norm)
