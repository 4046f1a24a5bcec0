"""Imported OpenNMT-py models compute OpenNMT-py's equations.

The checkpoints are written here as OpenNMT-py 3.5.1 writes them (commit 97111d9: onmt/models/model_saver.py,
onmt/inputters/inputter.py, onmt/opts.py), and its equations are written down from
onmt/encoders/transformer.py, onmt/decoders/transformer.py and onmt/modules.
"""

import argparse
import io
import math
import os
import re
import sys
import types

import pytest
import sentencepiece
import torch
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from torch.nn import functional as F

from dragoman.interop import opennmt_py
from dragoman.interop.verify import ReferenceEngine, compare, samples, verify
from dragoman.model.symbols import END, UNKNOWN
from dragoman.system.errors import DragomanError

SOURCE = [
    "ein Mann fährt Rad",
    "zwei Hunde spielen im Schnee",
    "der Schnee ist kalt",
    "ein Kind spielt mit dem Hund",
]
TARGET = ["a man rides a bike", "two dogs play in the snow", "the snow is cold", "a child plays with the dog"]
SPECIALS = ["<unk>", "<blank>", "<s>", "</s>"]
PLACES = 40  # rows of the table of positions; OpenNMT-py has 5000
OPTIONS = {
    "model_task": "seq2seq",
    "model_type": "text",
    "encoder_type": "transformer",
    "decoder_type": "transformer",
    "layers": -1,
    "enc_layers": 2,
    "dec_layers": 1,
    "hidden_size": 16,
    "word_vec_size": 16,
    "heads": 2,
    "transformer_ff": 24,
    "position_encoding": True,
    "position_encoding_type": "SinusoidalInterleaved",
    "pos_ffn_activation_fn": "relu",
    "self_attn_type": "scaled-dot-flash",
    "max_relative_positions": 0,
    "add_qkvbias": False,
    "add_ffnbias": True,
    "num_kv": 0,
    "layer_norm": "standard",
    "norm_eps": 1e-6,
    "copy_attn": False,
    "generator_function": "softmax",
    "dropout": [0.1, 0.2],
    "attention_dropout": [0.05],
    "share_vocab": True,
    "share_embeddings": True,
    "share_decoder_embeddings": True,
    "quant_layers": [],
    "lora_layers": [],
    "n_src_feats": 0,
    "transforms": [],
    "_all_transform": {"filtertoolong"},
    "data": {"corpus_1": {"path_src": "src.txt", "path_tgt": "tgt.txt", "weight": 1}},
    "src_subword_model": None,
    "tgt_subword_model": None,
    "src_subword_vocab": "",
    "tgt_subword_vocab": "",
    "src_vocab_threshold": 0,
    "tgt_vocab_threshold": 0,
}
KINDS = {
    "all tied": {},
    "biases": {"add_qkvbias": True},
    "no biases at all": {"add_ffnbias": False, "share_embeddings": False, "share_decoder_embeddings": False},
    "concatenated positions, gelu": {
        "position_encoding_type": "SinusoidalConcat",
        "pos_ffn_activation_fn": "gelu",
    },
    "two vocabularies, the target's tied": {"share_vocab": False, "share_embeddings": False},
    "two vocabularies, nothing tied": {
        "share_vocab": False,
        "share_embeddings": False,
        "share_decoder_embeddings": False,
    },
    "one depth for both sides, another epsilon": {
        "layers": 3,
        "norm_eps": 1e-3,
        "hidden_size": -1,
        "enc_hid_size": 16,
        "dec_hid_size": 16,
    },
}


def subwords(folder, kind, lines, size):
    """A file that cuts words, and the tokens of these lines, without some rare ones."""
    if kind == "sentencepiece":
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines * 9),
            model_writer=model,
            model_type="bpe" if size > 70 else "unigram",
            vocab_size=size,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        file = folder / f"{'src' if lines[0] == SOURCE[0] else 'tgt'}.model"
        file.write_bytes(model.getvalue())
    elif kind == "bpe":
        codes = io.StringIO()
        learn_bpe([f"{line}\n" for line in lines * 9], codes, size // 2, is_dict=False)
        file = folder / f"{'src' if lines[0] == SOURCE[0] else 'tgt'}.codes"
        file.write_text(codes.getvalue())
    else:
        file = None
    written = dict.fromkeys(token for line in lines for token in cut(kind, file, line))
    return file, [token for number, token in enumerate(written) if number % 7 != 5]


def cut(kind, file, line):
    """The tokens of a line, as OpenNMT-py's transforms give them."""
    if kind == "sentencepiece":
        return sentencepiece.SentencePieceProcessor(model_file=str(file)).encode(line, out_type=str)
    if kind == "bpe":
        return BPE(io.StringIO(file.read_text())).segment_tokens(line.strip().split(" "))
    return line.strip().split(" ")


def together(kind, file, tokens):
    if kind == "sentencepiece":
        return sentencepiece.SentencePieceProcessor(model_file=str(file)).decode_pieces(tokens)
    return re.sub("(@@ )|(@@ ?$)", "", " ".join(tokens)) if kind == "bpe" else " ".join(tokens)


def shapes(options, sizes):
    """Names and shapes of the state dictionaries of a model and its generator."""
    width, inner = 16, options["transformer_ff"]
    found = {}

    def linear(name, rows, columns, bias):
        found[f"{name}.weight"] = (rows, columns)
        if bias:
            found[f"{name}.bias"] = (rows,)

    def attention(name):
        for part in ("linear_keys", "linear_values", "linear_query", "final_linear"):
            linear(f"{name}.{part}", width, width, options["add_qkvbias"])

    def norm(name):
        found[f"{name}.weight"] = found[f"{name}.bias"] = (width,)

    def feed_forward(name):
        linear(f"{name}.w_1", inner, width, options["add_ffnbias"])
        linear(f"{name}.w_2", width, inner, options["add_ffnbias"])
        norm(f"{name}.layer_norm")

    depths = [
        options["layers"] if options["layers"] > 0 else options[name] for name in ("enc_layers", "dec_layers")
    ]
    for side, size in zip(("encoder", "decoder"), sizes, strict=True):
        found[f"{side}.embeddings.make_embedding.emb_luts.0.weight"] = (size, width)
        norm(f"{side}.layer_norm")
    for number in range(depths[0]):
        attention(f"encoder.transformer.{number}.self_attn")
        feed_forward(f"encoder.transformer.{number}.feed_forward")
        norm(f"encoder.transformer.{number}.layer_norm")
    for number in range(depths[1]):
        attention(f"decoder.transformer_layers.{number}.self_attn")
        attention(f"decoder.transformer_layers.{number}.context_attn")
        feed_forward(f"decoder.transformer_layers.{number}.feed_forward")
        norm(f"decoder.transformer_layers.{number}.layer_norm_1")
        norm(f"decoder.transformer_layers.{number}.layer_norm_2")
    linear("generator", sizes[1], width, bias=True)
    return found


def positions(kind):
    """The table that PositionalEncoding registers."""
    place = torch.arange(PLACES).float()[:, None]
    if kind == "SinusoidalInterleaved":
        angles = place * torch.exp(torch.arange(0, 16, 2).float() * -(math.log(10000.0) / 16))
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, None]
    angles = place * torch.exp(torch.arange(8).float() * -(math.log(10000) / 7))
    return torch.cat([angles.sin(), angles.cos()], 1)[:, None]


def checkpoint(folder, kind="words", start="<s>", **changes):
    """A random model's checkpoint, saved as ModelSaver saves it, and the files that cut its words."""
    torch.manual_seed(3)
    folder.mkdir(exist_ok=True)
    options = OPTIONS | changes
    if kind != "words":
        options |= {"transforms": [kind, "filtertoolong"], "_all_transform": {kind, "filtertoolong"}}
    sides = [(SOURCE, 60), (TARGET, 75)] if not options["share_vocab"] else [([*SOURCE, *TARGET], 90)] * 2
    files, lists = zip(*(subwords(folder, kind, *side) for side in sides), strict=True)
    if kind != "words":
        options |= {
            f"{side}_subword_model": f"/somewhere/else/{file.name}"
            for side, file in zip(("src", "tgt"), files, strict=True)
        }
    vocab = {
        side: [*SPECIALS, *tokens, "averyunlikelytoken0"]
        for side, tokens in zip(("src", "tgt"), lists, strict=True)
    }
    tensors = {
        name: torch.randn(shape) * 0.4
        for name, shape in shapes(options, [len(vocab["src"]), len(vocab["tgt"])]).items()
    }
    tensors |= {name: tensor * 0.3 for name, tensor in tensors.items() if "emb_luts" in name}
    tensors |= {
        name: tensor + 1
        for name, tensor in tensors.items()
        if "layer_norm" in name and name.endswith("weight")
    }
    source, target = (
        f"{side}.embeddings.make_embedding.emb_luts.0.weight" for side in ("encoder", "decoder")
    )
    if options["share_embeddings"]:
        tensors[target] = tensors[source]
    if options["share_decoder_embeddings"]:
        tensors["generator.weight"] = tensors[target]
    tensors |= {
        f"{side}.embeddings.make_embedding.pe.pe": positions(options["position_encoding_type"])
        for side in ("encoder", "decoder")
    }
    found = {
        "model": {name: tensor for name, tensor in tensors.items() if "generator" not in name},
        "generator": {
            name.removeprefix("generator."): tensor for name, tensor in tensors.items() if "generator" in name
        },
        "vocab": vocab | {"data_task": "seq2seq", "decoder_start_token": start},
        "opt": argparse.Namespace(**options),
        "optim": {
            "training_step": 7,
            "decay_step": 7,
            "optimizer": {"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]},
        },
    }
    return save(folder, found), found, files


def save(folder, found):
    path = folder / "model_step_7.pt"
    torch.save(found, path)
    return path


class Theirs:
    """OpenNMT-py's equations, from the tensors of a checkpoint."""

    def __init__(self, found):
        self.options = vars(found["opt"])
        self.tensors = found["model"] | {
            f"generator.{name.removeprefix('0.')}": tensor for name, tensor in found["generator"].items()
        }
        self.tensors = {name: tensor.float() for name, tensor in self.tensors.items()}

    def linear(self, name, x):
        return F.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def norm(self, name, x):
        epsilon = self.options["norm_eps"]
        return (x - x.mean(-1, keepdim=True)) / (
            x.var(-1, correction=0, keepdim=True) + epsilon
        ).sqrt() * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def attention(self, name, x, memory, causal=False):
        width = 16 // self.options["heads"]
        query = self.linear(f"{name}.linear_query", x).view(len(x), -1, width).transpose(0, 1) / math.sqrt(
            width
        )
        key = self.linear(f"{name}.linear_keys", memory).view(len(memory), -1, width).transpose(0, 1)
        value = self.linear(f"{name}.linear_values", memory).view(len(memory), -1, width).transpose(0, 1)
        scores = query @ key.transpose(1, 2)
        if causal:
            scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -1e18)
        return self.linear(f"{name}.final_linear", (scores.softmax(-1) @ value).transpose(0, 1).flatten(1))

    def feed_forward(self, name, x):
        activation = {"relu": F.relu, "gelu": F.gelu}[self.options["pos_ffn_activation_fn"]]
        return x + self.linear(
            f"{name}.w_2", activation(self.linear(f"{name}.w_1", self.norm(f"{name}.layer_norm", x)))
        )

    def embed(self, side, ids):
        name = f"{side}.embeddings.make_embedding"
        return (
            self.tensors[f"{name}.emb_luts.0.weight"][ids] * 4.0
            + self.tensors[f"{name}.pe.pe"][: len(ids), 0]
        )

    def layers(self, name):
        found = {int(key.split(".")[2]) for key in self.tensors if key.startswith(f"{name}.")}
        return [f"{name}.{number}" for number in sorted(found)]

    def memory(self, source):
        """What the encoder makes of a source's ids without an END."""
        x = self.embed("encoder", torch.tensor(source))
        for layer in self.layers("encoder.transformer"):
            before = self.norm(f"{layer}.layer_norm", x)
            x = self.feed_forward(
                f"{layer}.feed_forward", x + self.attention(f"{layer}.self_attn", before, before)
            )
        return self.norm("encoder.layer_norm", x)

    def logits(self, memory, target):
        """For the ids that the decoder reads."""
        x = self.embed("decoder", torch.tensor(target))
        for layer in self.layers("decoder.transformer_layers"):
            before = self.norm(f"{layer}.layer_norm_1", x)
            x = x + self.attention(f"{layer}.self_attn", before, before, causal=True)
            x = x + self.attention(f"{layer}.context_attn", self.norm(f"{layer}.layer_norm_2", x), memory)
            x = self.feed_forward(f"{layer}.feed_forward", x)
        return self.linear("generator", self.norm("decoder.layer_norm", x))


def engine(found, imported, kind="words", files=(None, None)):
    """OpenNMT-py, with the tokens forbidden that Dragoman never writes: padding and START."""
    theirs = Theirs(found)
    vocab = found["vocab"]
    of_source, of_target = (vocabulary.rows for vocabulary in imported.vocabularies)
    start, end = vocab["tgt"].index(vocab["decoder_start_token"]), vocab["tgt"].index("</s>")
    never = {vocab["tgt"].index("<blank>"), start} - {end}

    def encode(line):
        ids = [
            vocab["src"].index(token) if token in vocab["src"] else 0 for token in cut(kind, files[0], line)
        ]
        assert ids == [of_source[token] for token in imported.tokenizers.source.encode([line])[0]]
        return [*imported.tokenizers.source.encode([line])[0], END]

    def log_probs(source, target):
        read = [start, *(of_target[token] for token in target[:-1])]
        memory = theirs.memory([of_source[token] for token in source[:-1]])
        return theirs.logits(memory, read).log_softmax(-1)[:, torch.tensor(of_target)]

    def greedy(source, max_length):
        memory, written = theirs.memory([of_source[token] for token in source[:-1]]), []
        while len(written) < max_length:
            logits = theirs.logits(memory, [start, *written])[-1]
            logits[list(never)] = -torch.inf
            if (best := int(logits.argmax())) == end:
                break
            written.append(best)
        return [of_target.index(token, UNKNOWN) for token in written]

    def decode(ids):
        return together(kind, files[1], [vocab["tgt"][of_target[token]] for token in ids])

    return ReferenceEngine("OpenNMT-py", encode, log_probs, greedy, decode, range(len(of_source)))


def agree(path, found, kind="words", files=(None, None), more=()):
    """Both cut the same tokens, give them and any others the same log-probabilities, and write the same
    translations.
    """
    imported = opennmt_py.read(path)
    theirs = engine(found, imported, kind, files)
    lines = [*SOURCE[:2], *samples(imported.tokenizers, count=2), *more]
    assert verify(theirs, imported.model, imported.tokenizers, lines) < 1e-5
    source, target = (
        theirs.encode(SOURCE[0]),
        [*torch.randint(END + 1, len(found["vocab"]["tgt"]), (9,)).tolist(), END],
    )
    assert compare(theirs, imported.model, SOURCE[0], source, target) < 1e-5
    return imported


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
def test_an_imported_model_has_the_same_log_probabilities_and_translations(kind, tmp_path):
    path, found, _ = checkpoint(tmp_path, **KINDS[kind])
    settings = agree(path, found).model.settings
    assert settings.attention_bias == (kind == "biases")
    assert (settings.dropout, settings.attention_dropout) == (0.1, 0.05)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["sentencepiece", "bpe"])
def test_subword_models_give_the_same_ids_as_opennmt_py(kind, shared, tmp_path):
    path, found, files = checkpoint(tmp_path, kind, share_vocab=shared, share_embeddings=shared)
    imported = agree(
        path,
        found,
        kind,
        files,
        more=["Schnee  und Hund", "(ein) Kind"] if kind == "sentencepiece" else ["Schnee  Hund"],
    )
    assert (imported.tokenizers.source is imported.tokenizers.target) == shared
    assert imported.model.settings.tied == ("all" if shared else "target")
    assert agree(tmp_path, found, kind, files).tokenizers == imported.tokenizers


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_consecutive_unknown_tokens_are_not_merged(kind, tmp_path):
    path, found, files = checkpoint(tmp_path, kind)
    agree(path, found, kind, files, more=["ein xylophon qux Hund"])


def test_pieces_that_its_vocabulary_lacks_are_unknown_and_never_written(tmp_path):
    path, found, _ = checkpoint(tmp_path, "sentencepiece")
    imported = opennmt_py.read(path)
    own = len(found["vocab"]["tgt"])
    unknown = found["vocab"]["src"].index("<unk>")
    assert imported.vocabularies[0].rows[own:] == [unknown] * (len(imported.tokenizers.source) - own)
    assert len(imported.tokenizers.source) > own
    assert any(token >= own for line in SOURCE for token in imported.tokenizers.source.encode([line])[0])
    features = torch.randn(3, 16)
    assert imported.model.logits(features).softmax(-1)[:, own:].max() == 0


UNNAMED = {
    "transforms": [],
    "_all_transform": set(),
    "src_subword_model": None,
    "tgt_subword_model": None,
}


@pytest.mark.short_form(1)
@pytest.mark.parametrize("names", [("src", "tgt"), ("source", "target")], ids=" ".join)
@pytest.mark.parametrize("kind", ["sentencepiece", "bpe"])
def test_subword_models_are_found_by_their_place_where_the_options_do_not_name_them(kind, names, tmp_path):
    _, found, files = checkpoint(tmp_path, kind, share_vocab=False, share_embeddings=False)
    for name, value in UNNAMED.items():
        setattr(found["opt"], name, value)
    files = [file.rename(tmp_path / f"{name}{file.suffix}") for name, file in zip(names, files, strict=True)]
    agree(save(tmp_path, found), found, kind, files)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("place", ["transforms", "_all_transform"])
@pytest.mark.parametrize("kind", ["sentencepiece", "bpe"])
def test_a_transform_may_be_named_in_either_place(place, kind, tmp_path):
    """Its kind says what the model does whatever the file is called, and a missing file is told."""
    _, found, files = checkpoint(tmp_path, kind)
    own = files[0].rename(tmp_path / "my.pieces")
    for name, value in (UNNAMED | {place: [kind], "src_subword_model": "/elsewhere/my.pieces"}).items():
        setattr(found["opt"], name, value)
    path = save(tmp_path, found)
    agree(path, found, kind, (own, own))
    own.unlink()
    assert "put my.pieces there" in refused(path)


def test_a_shared_vocabulary_has_the_sources_subword_model_on_both_sides(tmp_path):
    path, found, files = checkpoint(tmp_path, "sentencepiece")
    found["opt"].tgt_subword_model = None
    (tmp_path / "other.model").write_bytes(b"of something else")
    agree(save(path.parent, found), found, "sentencepiece", files)


@pytest.mark.parametrize(("shared", "same"), [(True, False), (False, True), (False, False)])
def test_subword_models_of_one_name_in_two_folders_are_not_confused(shared, same, tmp_path):
    _, found, files = checkpoint(tmp_path, "sentencepiece", share_vocab=shared, share_embeddings=shared)
    files[0].rename(tmp_path / "bpe.model")
    found["opt"].src_subword_model = "/somewhere/src/bpe.model"
    found["opt"].tgt_subword_model = "/somewhere/src/bpe.model" if same else "/somewhere/tgt/bpe.model"
    path = save(tmp_path, found)
    if shared or same:
        opennmt_py.read(path)
    else:
        assert "/somewhere/src/bpe.model and /somewhere/tgt/bpe.model, have the same name" in refused(path)


def test_a_rate_of_dropout_may_be_a_number_or_the_first_of_a_schedule(whole):
    path, found = whole
    for written in (0.25, [0.25], [0.25, 0.5, 0.0]):
        found["opt"].dropout = found["opt"].attention_dropout = written
        settings = opennmt_py.read(save(path.parent, found)).model.settings
        assert (settings.dropout, settings.attention_dropout) == (0.25, 0.25)


@pytest.mark.short_form(2)
@pytest.mark.parametrize(
    "transform",
    ["filtertoolong", "clean", "bart", "switchout", "tokendrop", "tokenmask", "uppercase", "inlinetags"],
)
def test_transforms_of_training_alone_change_nothing(transform, whole):
    path, found = whole
    expected = opennmt_py.read(path).tokenizers
    found["opt"].transforms, found["opt"]._all_transform = [transform], {transform}
    assert opennmt_py.read(save(path.parent, found)).tokenizers == expected


@pytest.mark.parametrize("side", ["src", "tgt"])
def test_a_threshold_for_the_pieces_of_either_side_is_refused(side, tmp_path):
    path, found, _ = checkpoint(tmp_path, "bpe", share_vocab=False, share_embeddings=False)
    setattr(found["opt"], f"{side}_vocab_threshold", 50)
    opennmt_py.read(save(tmp_path, found))  # without a vocabulary it restricts nothing
    setattr(found["opt"], f"{side}_subword_vocab", "vocab.txt")
    assert refused(save(tmp_path, found)).startswith(f"{path}: {side}_vocab_threshold restricts")


OPTIONS_OF_SETTINGS = [
    "layers",
    "enc_layers",
    "dec_layers",
    "hidden_size",
    "enc_hid_size",
    "dec_hid_size",
    "heads",
    "transformer_ff",
    "pos_ffn_activation_fn",
    "self_attn_type",
    "add_qkvbias",
    "dropout",
    "attention_dropout",
    "norm_eps",
    "position_encoding_type",
]


@pytest.mark.parametrize("name", OPTIONS_OF_SETTINGS)
def test_an_option_that_is_left_out_has_its_default(name, tmp_path):
    """Checkpoints of older versions lack some."""

    def settings(**changes):
        options = {**OPTIONS, "heads": 4, "pos_ffn_activation_fn": "gelu", **changes}
        if name in ("enc_hid_size", "dec_hid_size"):
            options |= {"hidden_size": -1, "enc_hid_size": 500, "dec_hid_size": 500}
        if name == "hidden_size":
            options |= {"enc_hid_size": 24, "dec_hid_size": 24}
        without = {key: value for key, value in options.items() if key != name or key in changes}
        checkpoint = {"opt": argparse.Namespace(**without)}
        return opennmt_py.settings_of(opennmt_py.options_of(checkpoint, tmp_path), tmp_path)

    assert settings() == settings(**{name: opennmt_py.DEFAULTS[name]})


@pytest.mark.parametrize("start", ["</s>", "averyunlikelytoken0"])
def test_decoding_starts_with_the_token_that_the_checkpoint_names(start, tmp_path):
    agree(*checkpoint(tmp_path, start=start)[:2])


def test_a_checkpoint_converted_from_version_2_is_imported(tmp_path):
    _, found, _ = checkpoint(tmp_path, add_qkvbias=True)
    found["generator"] = {f"0.{name}": tensor for name, tensor in found["generator"].items()}
    for name in (
        "norm_eps",
        "position_encoding_type",
        "num_kv",
        "layer_norm",
        "quant_layers",
        "lora_layers",
        "_all_transform",
    ):
        delattr(found["opt"], name)
    found["opt"].add_ffnbias = False  # the biases are there all the same
    path = save(tmp_path, found)
    found["opt"].norm_eps = 1e-6
    agree(path, found)


def test_a_checkpoint_in_half_precision_is_imported(tmp_path):
    _, found, _ = checkpoint(tmp_path)
    for part in ("model", "generator"):
        found[part] = {name: tensor.half() for name, tensor in found[part].items()}
    path = save(tmp_path, found)
    imported = opennmt_py.read(path)
    found["model"] |= {
        f"{side}.embeddings.make_embedding.pe.pe": positions("SinusoidalInterleaved")
        for side in ("encoder", "decoder")
    }
    assert verify(engine(found, imported), imported.model, imported.tokenizers, SOURCE) < 1e-5


def refused(path):
    with pytest.raises(DragomanError) as caught:
        opennmt_py.read(path)
    return str(caught.value)


REFUSED = {
    "model_task": "lm",
    "model_type": "vec",
    "encoder_type": "brnn",
    "decoder_type": "cnn",
    "position_encoding": False,
    "position_encoding_type": "Other",
    "max_relative_positions": -1,
    "relative_positions_buckets": 32,
    "layer_norm": "rms",
    "parallel_residual": True,
    "multiquery": True,
    "num_kv": 1,
    "num_experts": 4,
    "sliding_window": 64,
    "copy_attn": True,
    "generator_function": "sparsemax",
    "n_src_feats": 1,
    "quant_layers": ["w_1"],
    "lora_layers": ["linear_query"],
    "lora_embedding": True,
    "self_attn_type": "average",
    "pos_ffn_activation_fn": "gated-gelu",
}


@pytest.fixture
def whole(tmp_path):
    """A checkpoint, its folder, and what is in it."""
    path, found, _ = checkpoint(tmp_path)
    return path, found


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_dragoman_does_not_have_is_refused_by_its_name(name, whole):
    path, found = whole
    setattr(found["opt"], name, REFUSED[name])
    message = refused(save(path.parent, found))
    assert message.startswith(f"{path}: {name} is {REFUSED[name]!r};")


def test_different_widths_of_encoder_and_decoder_are_refused(whole):
    path, found = whole
    found["opt"].hidden_size, found["opt"].enc_hid_size, found["opt"].dec_hid_size = -1, 16, 32
    assert (
        refused(save(path.parent, found))
        == f"{path}: enc_hid_size is 16 and dec_hid_size 32; in Dragoman they are the same."
    )


@pytest.mark.parametrize("transform", ["onmt_tokenize", "prefix", "normalize"])
def test_transforms_that_dragoman_does_not_have_are_refused(transform, whole):
    path, found = whole
    found["opt"]._all_transform = {transform, "filtertoolong", "bpe"}
    message = (
        f"{path}: OpenNMT-py changes its texts by {transform}; Dragoman has sentencepiece and bpe alone."
    )
    assert refused(save(path.parent, found)) == message


def test_missing_misshapen_and_other_tensors_are_refused(whole):
    path, found = whole
    name = "decoder.transformer_layers.0.context_attn.linear_keys.weight"
    kept = found["model"].pop(name)
    assert refused(save(path.parent, found)) == f"{path} lacks the tensor {name}, of shape (16, 16)."
    found["model"][name] = kept[:, :8]
    assert (
        refused(save(path.parent, found))
        == f"{path}: {name} has the shape (16, 8), and (16, 16) was expected."
    )
    found["model"][name] = kept.to(torch.int8)
    assert refused(save(path.parent, found)).startswith(f"{path}: {name} holds no floating-point numbers;")
    found["model"] |= {name: kept, "encoder.transformer.0.feed_forward.w_3.weight": kept}
    message = f"{path} has the tensor encoder.transformer.0.feed_forward.w_3.weight, which a model of its "
    message += "settings does not."
    assert refused(save(path.parent, found)) == message


def test_a_generator_without_bias_and_weights_in_another_file_are_refused(whole):
    path, found = whole
    bias = found["generator"].pop("bias")
    assert (
        refused(save(path.parent, found))
        == f"{path} lacks the tensor generator.bias, of shape ({len(bias)},)."
    )
    del found["model"], found["generator"]
    assert "no weights under 'model' and 'generator'" in refused(save(path.parent, found))


def test_other_positions_than_the_options_name_are_refused(whole):
    path, found = whole
    found["model"]["decoder.embeddings.make_embedding.pe.pe"] = positions("SinusoidalConcat")
    message = f"{path}: decoder.embeddings.make_embedding.pe.pe is not the table of sinusoids that "
    message += "Dragoman computes for this model."
    assert refused(save(path.parent, found)) == message


def test_a_vocabulary_of_another_size_is_refused(whole):
    path, found = whole
    size = len(found["vocab"]["src"])
    found["vocab"]["src"].append("more")
    name = "encoder.embeddings.make_embedding.emb_luts.0.weight"
    message = (
        f"{path} has {size + 1} tokens, and {name} in {path} has {size} rows; they do not belong together."
    )
    assert refused(save(path.parent, found)) == message
    found["vocab"]["src"][-1] = "ein"
    assert (
        refused(save(path.parent, found))
        == f"{path}: the vocabulary 'src' has {size + 1} tokens, and {size} different ones."
    )
    found["vocab"]["decoder_start_token"] = "<go>"
    found["vocab"]["src"].pop()
    assert refused(save(path.parent, found)) == f"{path}: the vocabulary 'tgt' lacks '<go>'."
    found["vocab"] |= {"src_feats": [["<unk>"]]}
    assert refused(save(path.parent, found)).startswith(f"{path}: src_feats is")
    del found["vocab"]["tgt"]
    assert "no lists of tokens under 'vocab'" in refused(save(path.parent, found))


def test_subword_models_that_are_missing_restricted_or_damaged_are_refused(tmp_path):
    path, found, (file, _) = checkpoint(tmp_path, "sentencepiece")
    file.write_bytes(b"no model")
    assert refused(path).startswith(f"{file} is not a SentencePiece model")
    file.unlink()
    assert "put src.model there" in refused(path)
    found["opt"].transforms = found["opt"]._all_transform = []
    found["opt"].src_subword_model = found["opt"].tgt_subword_model = None
    assert "is of SentencePiece's pieces; put the SentencePiece model (*.model) beside it." in refused(
        save(tmp_path, found)
    )
    for name in ("one.model", "two.model"):
        (tmp_path / name).touch()
    assert "of 2 files beside it" in refused(path)


def test_checkpoints_and_folders_whose_names_have_code_in_them_are_not_codes(tmp_path):
    path, _, _ = checkpoint(tmp_path)
    (tmp_path / "codes").mkdir()
    (tmp_path / "encoder_step_3.pt").touch()
    opennmt_py.read(path.rename(tmp_path / "encoder-decoder_step_7.pt"))
    opennmt_py.read((tmp_path / "encoder-decoder_step_7.pt").rename(tmp_path / "encoder-decoder"))


def test_damaged_or_restricted_codes_are_refused(tmp_path):
    path, found, (file, _) = checkpoint(tmp_path, "bpe")
    file.write_text("#version: 0.2\na b\na b c\n")
    assert refused(path) == f"{file}, line 3: 'a b c' is not a pair of pieces to merge."
    file.write_bytes(b"\xff\xfe")
    assert refused(path).startswith(f"{file} cannot be read:")
    found["opt"].src_vocab_threshold, found["opt"].src_subword_vocab = 50, "vocab.txt"
    assert refused(save(tmp_path, found)).startswith(f"{path}: src_vocab_threshold restricts")


def test_a_truncated_file_and_a_folder_without_a_checkpoint_are_refused(whole):
    path, _ = whole
    written = path.read_bytes()
    path.write_bytes(written[: len(written) // 2])
    assert refused(path).startswith(f"{path} is damaged")
    (path.parent / "other.pt").touch()
    names = ", ".join(sorted((path.name, "other.pt")))
    advice = f"should hold one checkpoint, and has {names}; name the file that is to be read."
    assert refused(path.parent) == f"{path.parent} {advice}"
    torch.save({"model": {}}, path)
    assert refused(path) == f"{path} has no options under 'opt'; it is not an OpenNMT-py checkpoint."


class Runs:
    """A class that would write a file if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_with_another_class_is_refused_and_not_run(whole):
    path, found = whole
    trap = path.parent / "run"
    said = refused(save(path.parent, found | {"optim": Runs(trap)}))
    assert "holds posix.mkdir, which is neither tensor nor plain value; no code of the file was run" in said
    assert not trap.exists()


@pytest.mark.parametrize("module", ["torchtext.data.field", "onmt.inputters.text_dataset"])
def test_a_checkpoint_of_version_2_is_refused_with_advice(module, whole, monkeypatch):
    path, found = whole
    field = type("TextMultiField", (), {"__module__": module})
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:depth]), types.ModuleType(parts[0]))
    monkeypatch.setattr(sys.modules[module], "TextMultiField", field, raising=False)
    message = refused(save(path.parent, found | {"vocab": {"src": field()}}))
    assert message.startswith(f"{path} is a checkpoint of OpenNMT-py 2 or older:")
    assert "convertv2_v3.py" in message
