"""A model exported to CTranslate2 predicts the same there."""

import json

import pytest
import torch

from dragoman.interop.ctranslate2 import engine, write
from dragoman.interop.verify import samples, verify
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, START, UNKNOWN
from dragoman.model.weights import weights
from dragoman.system.errors import DragomanError
from tests.test_huggingface import SIZES, SOURCE, ours

KINDS = {
    "the paper's": ModelSettings(**SIZES),
    "other options": ModelSettings(
        **SIZES,
        norm="pre",
        activation="swish",
        attention_bias=True,
        output_bias=True,
        positions="learned",
        tied="target",
    ),
    "few positions": ModelSettings(**SIZES, positions="learned", max_positions=24),
    "unscaled": ModelSettings(
        **SIZES,
        decoder_d_ff=9,
        scale_embeddings=False,
        activation="gelu",
        positions="sinusoidal-halves",
        tied="none",
    ),
    "OpenNMT-py's": ModelSettings(**SIZES, norm="pre", source_end=False, output_bias=True, norm_epsilon=1e-6),
    "fairseq's": ModelSettings(
        **SIZES, positions="sinusoidal-tensor2tensor", first_position=2, norm_epsilon=0.05
    ),
}


@pytest.mark.short_form(2)
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_and_translations_are_the_same_in_ctranslate2(kind, precision, tmp_path):
    model, tokenizers = ours(KINDS[kind])
    before = {name: weight.clone() for name, weight in weights(model).items()}
    write(model, tokenizers, tmp_path, precision)
    assert all(torch.equal(weight, before[name]) for name, weight in weights(model).items())
    verify(
        engine(tmp_path, model, tokenizers, precision),
        model,
        tokenizers,
        [*SOURCE[:2], *samples(tokenizers, model.longest_source, count=2)],
    )


def test_a_model_that_ctranslate2_cannot_hold_is_refused(tmp_path):
    with pytest.raises(
        DragomanError,
        match="CTranslate2 has heads of width d_model / heads = 8 alone, and this model's d_k is 4, its d_v "
        "8",
    ):
        write(*ours(ModelSettings(**SIZES, d_k=4)), tmp_path)


def test_int8_takes_a_byte_for_each_weight_of_a_matrix(tmp_path):
    model, tokenizers = ours(KINDS["unscaled"])
    sizes = []
    for precision in ("float32", "int8"):
        (tmp_path / precision).mkdir()
        write(model, tokenizers, tmp_path / precision, precision)
        sizes.append((tmp_path / precision / "model.bin").stat().st_size)
    matrices = sum(weight.numel() for weight in weights(model).values() if weight.dim() == 2)
    assert 2 * matrices < sizes[0] - sizes[1] <= 3 * matrices  # each row has its scale


def test_the_folder_names_the_special_tokens_of_the_target(tmp_path):
    model, tokenizers = ours(KINDS["unscaled"])
    write(model, tokenizers, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    names = ("unk_token", "decoder_start_token", "eos_token")
    assert [config[name] for name in names] == tokenizers.target.pieces([UNKNOWN, START, END])
