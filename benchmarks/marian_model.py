"""A model in Marian's own format for comparisons: what `dragoman export --to marian` writes, and vocab.yml.

Marian does not forbid PAD and START: here the bias of the logits does. Its sinusoids have slightly other
wavelengths (`sinusoidal-tensor2tensor`), and no file can change them. `with_marians_positions` makes the
model of ours that computes what Marian will compute.
"""

import json
from dataclasses import replace
from pathlib import Path

import torch

from dragoman.interop import marian
from dragoman.interop.huggingface import halves_order, permute_features
from dragoman.interop.vocabulary import FORBIDDEN_BIAS
from dragoman.model.settings import PositionKind
from dragoman.model.symbols import END, PAD, START
from dragoman.model.transformer import Transformer
from dragoman.model.weights import load_weights, weights
from dragoman.translation.model_folder import Tokenizers

VOCABULARY = "vocab.yml"
POSITIONS: PositionKind = "sinusoidal-tensor2tensor"


def with_marians_positions(model: Transformer) -> Transformer:
    """The model with Marian's sinusoids in the place of the paper's, and its features in Marian's order.

    It computes another function, though not much: this is what Marian makes of the weights.
    """
    return permute_features(model, halves_order(model.settings.d_model), POSITIONS)


def write(model: Transformer, tokenizers: Tokenizers, folder: Path, endless: bool = False) -> None:
    """Write a folder for Marian, which reads and writes the pieces of our tokenizer, separated by spaces.

    `model` has Marian's sinusoids. An `endless` one never writes END: Marian has no least length, and then
    `--max-length-factor` alone ends a translation. Raises `DragomanError` if Marian cannot hold the model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    marian.write(forbidding(model, [PAD, START, *[END] * endless]), tokenizers, folder)
    pieces = tokenizers.target.pieces(range(len(tokenizers.target)))
    numbers = {piece: number for number, piece in enumerate(pieces)}
    (folder / VOCABULARY).write_text(json.dumps(numbers, ensure_ascii=False, indent=0), "utf-8")


def forbidding(model: Transformer, tokens: list[int]) -> Transformer:
    """The model with biases of the logits that forbid these tokens."""
    vocabulary = model.output.num_embeddings
    bias = torch.zeros(vocabulary) if model.output_bias is None else model.output_bias.detach().clone()
    bias[tokens] = FORBIDDEN_BIAS
    settings = replace(model.settings, output_bias=True)
    forbidden = Transformer(settings, model.source_embedding.num_embeddings, vocabulary)
    load_weights(forbidden, weights(model) | {"output_bias": bias}, Path("the model"))
    return forbidden.eval()
