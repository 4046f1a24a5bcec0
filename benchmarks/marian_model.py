"""A model in Marian's own format: model.npz, with the model's options in it, and vocab.yml.

Marian differs from Dragoman in three ways:

- Its decoder reads zeros before the first token; ours reads the embedding of START. Therefore this embedding,
  c, is subtracted from all embeddings. All logits of a position change by the same number, so no probability
  changes. The biases of the first layers of both sides give c back, since x W = (x - c) W + c W.
- It does not forbid PAD and START: here the bias of the logits does.
- Its sinusoids have slightly other wavelengths (`sinusoidal-tensor2tensor`), and no file can change them.
  `with_marians_positions` makes the model of ours that computes what Marian will compute.

Sources: the options of `marian --help`, and the names and shapes in models that pymarian 1.12.42 writes.
"""

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.interop.huggingface import halves_order, permute_features
from dragoman.interop.vocabulary import FORBIDDEN_BIAS
from dragoman.interop.weights import check_exportable
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START
from dragoman.model.transformer import Transformer
from dragoman.translation.model_folder import Tokenizers, numpy_weights

MODEL, VOCABULARY = "model.npz", "vocab.yml"
OUTPUT_BIAS = "decoder_ff_logit_out_b"
POSITIONS = "sinusoidal-tensor2tensor"
Array = npt.NDArray[np.float32]


def with_marians_positions(model: Transformer) -> Transformer:
    """The model with Marian's sinusoids in the place of the paper's, and its features in Marian's order.

    It computes another function, though not much: this is what Marian makes of the weights.
    """
    return permute_features(model, halves_order(model.settings.d_model), POSITIONS)


def write(model: Transformer, tokenizers: Tokenizers, folder: Path, endless: bool = False) -> None:
    """Write a folder for Marian, which reads and writes the pieces of our tokenizer, separated by spaces.

    `model` has Marian's sinusoids. An `endless` one never writes END: Marian has no least length, and then
    `--max-length-factor` alone ends a translation. Raises `DragomanError` if this function cannot write it.
    """
    allowed = {
        "architecture": ("transformer",),
        "norm": ("post",),
        "positions": (POSITIONS,),
        "first_position": (0,),
        "source_end": (True,),
        "tied": ("all",),
        "scale_embeddings": (True,),
        "activation": ("relu", "swish"),
    }
    check_exportable("Marian", model.settings, tokenizers, allowed)
    tensors: dict[str, npt.NDArray[np.generic]] = dict(marian_weights(model))
    if endless:
        tensors[OUTPUT_BIAS][0, END] = FORBIDDEN_BIAS
    text = json.dumps(options(model.settings, len(tokenizers.target)))  # which YAML can read
    tensors["special:model.yml"] = np.frombuffer(f"{text}\0".encode(), np.int8)
    folder.mkdir(parents=True, exist_ok=True)
    # Marian refuses arrays in the order of Fortran, which transposed ones have.
    np.savez(folder / MODEL, **{name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()})
    pieces = tokenizers.target.pieces(range(len(tokenizers.target)))
    numbers = {piece: number for number, piece in enumerate(pieces)}
    (folder / VOCABULARY).write_text(json.dumps(numbers, ensure_ascii=False, indent=0), "utf-8")


def options(settings: ModelSettings, vocabulary: int) -> dict[str, object]:
    """Marian's options of the model."""
    return {
        "version": "v1.12.42",
        "type": "transformer",
        "dim-vocabs": [vocabulary, vocabulary],
        "dim-emb": settings.d_model,
        "enc-depth": settings.encoder_layers,
        "dec-depth": settings.decoder_layers,
        "transformer-heads": settings.heads,
        "transformer-dim-ffn": settings.d_ff,
        "transformer-decoder-dim-ffn": settings.decoder_d_ff or settings.d_ff,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": settings.activation,
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "tied-embeddings-all": True,
    }


def marian_weights(model: Transformer) -> dict[str, Array]:
    """The weights by Marian's names: matrices [inputs, outputs] and vectors [1, outputs]."""
    settings, own = model.settings, numpy_weights(model)
    embedding = own["target_embedding.weight"]
    start = embedding[START] * np.float32(settings.d_model**0.5)  # scaled, as the decoder reads it
    bias = np.zeros((1, len(embedding)), np.float32) + own.get("output_bias", np.float32(0))
    bias[0, [PAD, START]] = FORBIDDEN_BIAS
    found = {"Wemb": embedding - embedding[START], OUTPUT_BIAS: bias}
    for side, depth in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        attentions = {"self_attention": "self"} | (
            {"cross_attention": "context"} if side == "decoder" else {}
        )
        for number in range(depth):
            ours, theirs = f"{side}.{number}", f"{side}_l{number + 1}"
            for name, place in attentions.items():
                shift = start if (number, name) == (0, "self_attention") else np.zeros_like(start)
                layer = {part: own.get(f"{ours}.{name}.{part}") for part in ATTENTION}
                found |= attention(f"{theirs}_{place}", layer, shift)
                found |= norm(f"{theirs}_{place}_Wo", own, f"{ours}.{name}_residual")
            found |= feed_forward(f"{theirs}_ffn", own, f"{ours}.feed_forward")
            found |= norm(f"{theirs}_ffn_ffn", own, f"{ours}.feed_forward_residual")
    return found


ATTENTION = ("query_key_value.weight", "query_key_value.bias", "output.weight", "output.bias")


def attention(place: str, layer: dict[str, Array | None], shift: Array) -> dict[str, Array]:
    """An attention whose input and residual lack `shift` [D], which its biases give back."""
    weight, bias, outer, outer_bias = (layer[part] for part in ATTENTION)
    zeros = np.zeros(len(weight), np.float32)
    inner_bias = (zeros if bias is None else bias) + weight @ shift
    found = {
        f"{place}_W{letter}": rows.T for letter, rows in zip("qkv", np.split(weight, 3), strict=True)
    } | {f"{place}_b{letter}": row[None] for letter, row in zip("qkv", np.split(inner_bias, 3), strict=True)}
    return found | {
        f"{place}_Wo": outer.T,
        f"{place}_bo": (shift + (0 if outer_bias is None else outer_bias))[None],
    }


def feed_forward(place: str, own: dict[str, Array], ours: str) -> dict[str, Array]:
    """The two matrices and biases of section 3.3."""
    found = {}
    for number, part in enumerate(("inner", "outer"), 1):
        found[f"{place}_W{number}"] = own[f"{ours}.{part}.weight"].T
        found[f"{place}_b{number}"] = own[f"{ours}.{part}.bias"][None]
    return found


def norm(place: str, own: dict[str, Array], ours: str) -> dict[str, Array]:
    """Scale and bias of a layer normalisation."""
    return {
        f"{place}_ln_scale": own[f"{ours}.norm.weight"][None],
        f"{place}_ln_bias": own[f"{ours}.norm.bias"][None],
    }
