"""Models in Marian's own format compute what ours do. Oracle: transformers' Marian with their weights."""

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model.positions import sinusoids
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START
from dragoman.model.transformer import Transformer
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

SETTINGS = ModelSettings(d_model=16, d_ff=24, decoder_d_ff=20, heads=2, encoder_layers=3, decoder_layers=2)
OTHERS = {
    "the paper's": SETTINGS,
    "with all biases, swish": replace(SETTINGS, attention_bias=True, output_bias=True, activation="swish"),
}
POSITIONS = 32
PARTS = {
    r"self_W([qkv])": r"self_attn.\1_proj.weight",
    r"self_b([qkv])": r"self_attn.\1_proj.bias",
    r"context_W([qkv])": r"encoder_attn.\1_proj.weight",
    r"context_b([qkv])": r"encoder_attn.\1_proj.bias",
    r"self_Wo": "self_attn.out_proj.weight",
    r"self_bo": "self_attn.out_proj.bias",
    r"context_Wo": "encoder_attn.out_proj.weight",
    r"context_bo": "encoder_attn.out_proj.bias",
    r"self_Wo_ln_scale": "self_attn_layer_norm.weight",
    r"self_Wo_ln_bias": "self_attn_layer_norm.bias",
    r"context_Wo_ln_scale": "encoder_attn_layer_norm.weight",
    r"context_Wo_ln_bias": "encoder_attn_layer_norm.bias",
    r"ffn_W([12])": r"fc\1.weight",
    r"ffn_b([12])": r"fc\1.bias",
    r"ffn_ffn_ln_scale": "final_layer_norm.weight",
    r"ffn_ffn_ln_bias": "final_layer_norm.bias",
}


@pytest.fixture
def marian_model(monkeypatch):
    """The functions of benchmarks/marian_model.py."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(folder)
    return runpy.run_path(str(folder / "marian_model.py"))


@pytest.fixture
def tokenizers():
    lines = ["ein Mann fährt Rad", "zwei Hunde spielen im Schnee", "der Schnee ist kalt"]
    tokenizer = Tokenizer.train(lines, "bpe", TokenizerSettings(byte_fallback=False), 40)
    return Tokenizers(tokenizer, tokenizer)


def ours(settings, tokenizers):
    torch.manual_seed(3)
    model = Transformer(settings, len(tokenizers.source), len(tokenizers.target)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def renamed(name):
    """The name of a layer's tensor in transformers."""
    side, number, part = re.fullmatch(r"(encoder|decoder)_l(\d+)_(.*)", name).groups()
    (found,) = (re.sub(ours, theirs, part) for ours, theirs in PARTS.items() if re.fullmatch(ours, part))
    return f"model.{side}.layers.{int(number) - 1}.{found}"


def theirs(path):
    """transformers' Marian with the options and the weights of a file, and Marian's sinusoids."""
    from transformers import MarianConfig, MarianMTModel

    stored = dict(np.load(path))
    options = json.loads(stored.pop("special:model.yml").tobytes().rstrip(b"\0"))
    config = MarianConfig(
        vocab_size=options["dim-vocabs"][0],
        d_model=options["dim-emb"],
        encoder_layers=options["enc-depth"],
        decoder_layers=options["dec-depth"],
        encoder_attention_heads=options["transformer-heads"],
        decoder_attention_heads=options["transformer-heads"],
        encoder_ffn_dim=options["transformer-dim-ffn"],
        decoder_ffn_dim=options["transformer-decoder-dim-ffn"],
        activation_function=options["transformer-ffn-activation"],
        scale_embedding=True,
        max_position_embeddings=POSITIONS,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
    )
    model = MarianMTModel(config).eval()
    table = sinusoids(POSITIONS, config.d_model, "sinusoidal-tensor2tensor")
    tensors = {f"model.{side}.embed_positions.weight": table for side in ("encoder", "decoder")}
    tensors["model.shared.weight"] = torch.from_numpy(stored.pop("Wemb"))
    tensors["final_logits_bias"] = torch.from_numpy(stored.pop("decoder_ff_logit_out_b"))
    for name, array in stored.items():
        place = renamed(name)
        assert place not in tensors
        tensors[place] = torch.from_numpy(array[0] if len(array) == 1 else array.T)
    known = {**dict(model.named_parameters()), "final_logits_bias": model.final_logits_bias}
    assert known.keys() == tensors.keys()
    with torch.no_grad():
        for name, tensor in tensors.items():
            assert known[name].shape == tensor.shape, name
            known[name].copy_(tensor)
    return model


@pytest.mark.long
@pytest.mark.parametrize("settings", OTHERS.values(), ids=OTHERS)
def test_the_file_gives_each_token_the_probability_that_ours_gives(
    settings, marian_model, tokenizers, tmp_path
):
    model = marian_model["with_marians_positions"](ours(settings, tokenizers))
    marian_model["write"](model, tokenizers, tmp_path)
    source = torch.tensor([[7, 9, 5, 8, END], [6, 4, END, PAD, PAD]])
    target = torch.tensor([[START, 11, 5, 6], [START, 4, 12, 9]])
    with torch.no_grad():
        own = model.logits(model.decode(target, model.encode(source))[0])
        own[..., [PAD, START]] = -torch.inf  # our search forbids them
        # The file's START is zeros, which Marian reads before the first token.
        found = theirs(tmp_path / "model.npz")(
            input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target
        ).logits
    assert torch.equal(found.argmax(-1), own.argmax(-1))
    torch.testing.assert_close(found.softmax(-1), own.softmax(-1), rtol=1e-4, atol=1e-6)


def test_the_vocabulary_has_the_pieces_by_their_ids_and_an_endless_model_never_ends(
    marian_model, tokenizers, tmp_path
):
    model = marian_model["with_marians_positions"](ours(SETTINGS, tokenizers))
    marian_model["write"](model, tokenizers, tmp_path, endless=True)
    numbers = json.loads((tmp_path / "vocab.yml").read_text("utf-8"))
    assert sorted(numbers, key=numbers.get) == tokenizers.target.pieces(range(len(tokenizers.target)))
    assert numbers["</s>"] == END
    with np.load(tmp_path / "model.npz") as stored:
        assert np.flatnonzero(stored["decoder_ff_logit_out_b"]).tolist() == [PAD, START, END]


@pytest.mark.parametrize("setting", [{"norm": "pre"}, {"positions": "sinusoidal"}, {"activation": "gelu"}])
def test_a_model_that_the_file_cannot_hold_is_refused(setting, marian_model, tokenizers, tmp_path):
    settings = replace(SETTINGS, **({"positions": "sinusoidal-tensor2tensor"} | setting))
    with pytest.raises(DragomanError, match=f"its {next(iter(setting))} is"):
        marian_model["write"](ours(settings, tokenizers), tokenizers, tmp_path)
