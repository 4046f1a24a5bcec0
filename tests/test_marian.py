"""Models in Marian's own files compute Marian's equations, and Marian reads those that are exported.

The files are written as Marian 1.12 writes them (`io.cpp`, `binary.cpp`), and the equations are those of its
`transformer.h`, as `pymarian` computes them. It is asked itself where it is installed.
"""

import io
import json
import math
import struct
import zipfile
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import sentencepiece
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.interop import marian
from dragoman.interop.export import same_ids
from dragoman.interop.marian_files import OPTIONS, read_arrays
from dragoman.interop.verify import samples, verify
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START
from dragoman.model.weights import weights
from dragoman.system.errors import DragomanError
from dragoman.text.settings import TokenizerSettings
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.model_folder import Tokenizers

SOURCE = ["ein Mann fährt Rad", "zwei Hunde spielen im Schnee", "der Schnee ist kalt"]
TARGET = ["a man rides a bike", "two dogs play in the snow", "the snow is cold"]
WIDTH, WIDER, NARROWER = 16, 24, 20
PRE = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}
RECURRENT = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"}
KINDS = {
    "all tied": {"tied-embeddings-all": True},
    "two vocabularies": {"transformer-ffn-activation": "relu", "transformer-decoder-dim-ffn": NARROWER},
    "target tied, pre-norm, no bias": {"tied-embeddings": True, "output-omit-bias": True, **PRE},
    "source tied, tied layers": {"tied-embeddings-src": True, "transformer-tied-layers": [2, 1, 2]},
    "recurrence": {"tied-embeddings-all": True, **RECURRENT},
    "recurrence, pre-norm": {"tied-embeddings": True, **RECURRENT, **PRE},
    "tables of words": {"table": True},
    "a table of pieces": {"table": True, "pieces": True, "tied-embeddings-all": True},
}
NAMES = ("source", "target")


def write_vocabulary(folder, side, lines, options):
    """A SentencePiece model with Marian's numbers, or a table; the name of the file, and its size."""
    if options.get("table") and not options.get("pieces"):
        words = sorted({word for line in lines for word in line.split()})
        table = {"</s>": 0, "<unk>": 1} | {word: number for number, word in enumerate(words, 2)}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 9), model_writer=model, vocab_size=60, hard_vocab_limit=False,
        eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2,
    )  # fmt: skip
    if not options.get("table"):
        (folder / f"{side}.spm").write_bytes(model.getvalue())
        return f"{side}.spm", sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).vocab_size()
    if options.get("pieces"):
        for name in NAMES:
            (folder / f"{name}.spm").write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        table = {processor.id_to_piece(number): number for number in range(processor.vocab_size() - 3)}
    text = "".join(f"{json.dumps(piece)}: {number}\n" for piece, number in table.items())
    (folder / f"{side}.yml").write_text(text)
    return f"{side}.yml", len(table)


def random_model(folder, **options):
    """A folder with a random model of Marian's; its options and arrays."""
    folder.mkdir(exist_ok=True)
    shared = options.get("tied-embeddings-all") or options.get("tied-embeddings-src")
    texts = [[*SOURCE, *TARGET]] * 2 if shared else [SOURCE, TARGET]
    sides = [NAMES[0]] * 2 if shared else NAMES
    files = [write_vocabulary(folder, side, text, options) for side, text in zip(sides, texts, strict=True)]
    options = {
        "type": "transformer",
        "dim-emb": WIDTH,
        "dim-vocabs": [size for _, size in files],
        "enc-depth": 2,
        "dec-depth": 3,
        "transformer-heads": 2,
        "transformer-dim-ffn": WIDER,
        "transformer-guided-alignment-layer": "last",
    } | options
    arrays = random_arrays(marian.DEFAULTS | options)
    (folder / "decoder.yml").write_text(
        json.dumps({"models": ["elsewhere/model.npz"], "vocabs": [name for name, _ in files]})
    )
    save(folder / "model.npz", arrays, options)
    return marian.DEFAULTS | options, arrays


def save(path, arrays, options):
    """Write `model.npz` as Marian does: not compressed, with the options as bytes that end with a zero."""
    text = json.dumps(options).encode() + b"\0"
    np.savez(path, **arrays, **{OPTIONS: np.frombuffer(text, np.int8)})


def random_arrays(options):
    """All tensors that Marian's graph of these options has."""
    generator = np.random.default_rng(5)
    shapes = {}
    sizes, is_pre = options["dim-vocabs"], options["transformer-preprocess"] == "n"
    tied = options["tied-embeddings-all"] or options["tied-embeddings-src"]
    for name, size in zip(("Wemb", "Wemb") if tied else ("encoder_Wemb", "decoder_Wemb"), sizes, strict=True):
        shapes[name] = (size, WIDTH)
    if not (options["tied-embeddings-all"] or options["tied-embeddings"]):
        shapes["decoder_ff_logit_out_Wt"] = (sizes[1], WIDTH)
    if not options["output-omit-bias"]:
        shapes["decoder_ff_logit_out_b"] = (1, sizes[1])
    layers = options["transformer-tied-layers"] or range(1, options["dec-depth"] + 1)
    numbers = {"encoder": range(1, options["enc-depth"] + 1), "decoder": sorted(set(layers))}
    for side, width in (("encoder", WIDER), ("decoder", options["transformer-decoder-dim-ffn"] or WIDER)):
        norms = [f"{side}_top_ln_{kind}" for kind in ("scale", "bias") if is_pre]
        for layer in (f"{side}_l{number}" for number in numbers[side]):
            is_recurrent = side == "decoder" and options["transformer-decoder-autoreg"] == "rnn"
            kinds = [*["self"] * (not is_recurrent), *["context"] * (side == "decoder")]
            attentions = [f"{layer}_{kind}" for kind in kinds]
            if is_recurrent:
                name = f"{layer}_rnn"
                shapes |= {
                    f"{name}_W": (WIDTH, WIDTH),
                    f"{name}_Wf": (WIDTH, WIDTH),
                    f"{name}_bf": (1, WIDTH),
                }
                ending = "_pre" if is_pre else ""
                norms += [f"{name}{'' if is_pre else '_ffn'}_ln_{kind}{ending}" for kind in ("scale", "bias")]
            for name in attentions:
                shapes |= {f"{name}_W{part}": (WIDTH, WIDTH) for part in "qkvo"}
                shapes |= {f"{name}_b{part}": (1, WIDTH) for part in "qkvo"}
            shapes |= {f"{layer}_ffn_W1": (WIDTH, width), f"{layer}_ffn_b1": (1, width)}
            shapes |= {f"{layer}_ffn_W2": (width, WIDTH), f"{layer}_ffn_b2": (1, WIDTH)}
            for name in (*(f"{name}_Wo" for name in attentions), f"{layer}_ffn_ffn"):
                norms += [f"{name}_ln_{kind}{'_pre' * is_pre}" for kind in ("scale", "bias")]
        shapes |= dict.fromkeys(norms, (1, WIDTH))
    draw = {name: generator.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    return draw | {name: array + 1 for name, array in draw.items() if "ln_scale" in name}


class Equations:
    """What Marian computes from its arrays."""

    def __init__(self, options, arrays):
        self.options, self.arrays = options, arrays
        self.is_pre = options["transformer-preprocess"] == "n"

    def norm(self, x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        suffix = "_pre" if self.is_pre and "_top" not in name else ""
        return x * self.arrays[f"{name}_ln_scale{suffix}"] + self.arrays[f"{name}_ln_bias{suffix}"]

    def sublayer(self, x, name, function):
        if self.is_pre:
            return x + function(self.norm(x, name))
        return self.norm(x + function(x), name)

    def affine(self, x, name, part):
        return x @ self.arrays[f"{name}_W{part}"] + self.arrays[f"{name}_b{part}"]

    def attention(self, queries, memory, name, causal=False):
        heads = self.options["transformer-heads"]
        query, key, value = (
            self.affine(x, name, part).reshape(len(x), heads, -1).transpose(1, 0, 2)
            for x, part in ((queries, "q"), (memory, "k"), (memory, "v"))
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        if causal:
            scores = scores + np.triu(np.full(scores.shape[-2:], -1e8), 1)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        joined = (exponentials / exponentials.sum(-1, keepdims=True) @ value).transpose(1, 0, 2)
        return self.affine(joined.reshape(len(queries), -1), name, "o")

    def feed_forward(self, x, name):
        inner = self.affine(x, name, "1")
        is_relu = self.options["transformer-ffn-activation"] == "relu"
        return self.affine(np.maximum(inner, 0) if is_relu else inner / (1 + np.exp(-inner)), name, "2")

    def embed(self, embedded):
        pairs = np.arange(WIDTH // 2)
        angles = np.arange(len(embedded))[:, None] * np.exp(pairs * -math.log(10000) / (WIDTH / 2 - 1))
        return math.sqrt(WIDTH) * embedded + np.concatenate([np.sin(angles), np.cos(angles)], -1)

    def log_probs(self, source, target):
        """Of all tokens [T V] at each of the target, from Marian's ids that include the end."""
        tied = self.options["tied-embeddings-all"] or self.options["tied-embeddings-src"]
        source_embedding, target_embedding = (
            self.arrays["Wemb" if tied else f"{side}_Wemb"] for side in ("encoder", "decoder")
        )
        x = self.embed(source_embedding[source])
        for number in range(1, self.options["enc-depth"] + 1):
            layer = f"encoder_l{number}"
            x = self.sublayer(
                x, f"{layer}_self_Wo", lambda y, layer=layer: self.attention(y, y, f"{layer}_self")
            )
            x = self.sublayer(
                x, f"{layer}_ffn_ffn", lambda y, layer=layer: self.feed_forward(y, f"{layer}_ffn")
            )
        memory = self.norm(x, "encoder_top") if self.is_pre else x
        x = self.embed(np.concatenate([np.zeros((1, WIDTH)), target_embedding[target[:-1]]]))
        for number in self.options["transformer-tied-layers"] or range(1, self.options["dec-depth"] + 1):
            layer = f"decoder_l{number}"
            x = self.autoregression(x, layer)
            x = self.sublayer(
                x,
                f"{layer}_context_Wo",
                lambda y, layer=layer: self.attention(y, memory, f"{layer}_context"),
            )
            x = self.sublayer(
                x, f"{layer}_ffn_ffn", lambda y, layer=layer: self.feed_forward(y, f"{layer}_ffn")
            )
        x = self.norm(x, "decoder_top") if self.is_pre else x
        output = self.arrays.get("decoder_ff_logit_out_Wt", target_embedding)
        logits = torch.from_numpy(x @ output.T + self.arrays.get("decoder_ff_logit_out_b", 0))
        return logits.log_softmax(-1)

    def recurrence(self, x, name):
        cell, outputs = np.zeros(WIDTH), []
        for row in x:
            forget = 1 / (1 + np.exp(-self.affine(row, name, "f")[0]))
            cell = forget * cell + (1 - forget) * (row @ self.arrays[f"{name}_W"])
            outputs.append(np.maximum(cell, 0))
        return np.stack(outputs)

    def autoregression(self, x, layer):
        if self.options["transformer-decoder-autoreg"] == "rnn":
            name = f"{layer}_rnn"
            return self.sublayer(
                x, name if self.is_pre else f"{name}_ffn", lambda y: self.recurrence(y, name)
            )
        return self.sublayer(
            x, f"{layer}_self_Wo", lambda y: self.attention(y, y, f"{layer}_self", causal=True)
        )


def our_log_probs(model, source, target):
    """Of all our tokens [T V]; source and target include END."""
    with torch.no_grad():
        state = model.encode(torch.tensor([source]))
        features, _ = model.decode(torch.tensor([[START, *target[:-1]]]), state)
        return model.logits(features[0]).log_softmax(-1)


@pytest.mark.short_form(2)
@pytest.mark.parametrize("kind", KINDS)
def test_an_imported_model_computes_marians_equations(kind, tmp_path):
    equations = Equations(*random_model(tmp_path, **KINDS[kind]))
    imported = marian.read(tmp_path)
    source_rows, target_rows = (vocabulary.rows for vocabulary in imported.vocabularies)
    source, target = [9, 4, 7, 12, 6, END], [5, 11, 8, END]
    found = our_log_probs(imported.model, source, target)
    expected = equations.log_probs(
        *([rows[token] for token in ids] for rows, ids in ((source_rows, source), (target_rows, target)))
    )
    written = [
        token for token in range(END, len(target_rows)) if token not in imported.vocabularies[1].never_written
    ]
    torch.testing.assert_close(
        found[:, written].double(), expected[:, [target_rows[token] for token in written]], rtol=0, atol=1e-4
    )
    assert (found[:, [PAD, START]] < -1e8).all()


@pytest.mark.short_form(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_has_marians_ids(kind, tmp_path):
    random_model(tmp_path, **KINDS[kind])
    imported = marian.read(tmp_path)
    _, files = marian.files_of(tmp_path)
    side = marian.read_side(files[0], "source.spm", len(imported.vocabularies[0].rows))
    for line in (*SOURCE, "ein neues Wort"):
        (ids,) = imported.tokenizers.source.encode([line])
        assert [imported.vocabularies[0].rows[token] for token in ids] == side.encode(line)


@pytest.mark.parametrize(
    "kind", ["all tied", "target tied, pre-norm, no bias", "recurrence, pre-norm", "a table of pieces"]
)
def test_marian_computes_the_same_where_it_is_installed(kind, tmp_path):
    pytest.importorskip("pymarian")
    random_model(tmp_path, **KINDS[kind])
    imported = marian.read(tmp_path)
    engine = marian.engine(tmp_path, imported.vocabularies)
    assert verify(engine, imported.model, imported.tokenizers, SOURCE) < 1e-4


def binary(arrays, options, quantized=None, contents=None):
    """The bytes of Marian's binary format; `quantized` are other types, `contents` their bytes."""
    arrays = arrays | {OPTIONS: np.frombuffer(json.dumps(options).encode() + b"\0", np.int8)}
    codes = {name: {"float32": 0x404, "int8": 0x101}[array.dtype.name] for name, array in arrays.items()}
    codes |= quantized or {}
    contents = {name: array.tobytes() for name, array in arrays.items()} | (contents or {})
    padded = {
        name: content.ljust(256 * (len(content) // 256 + 1), b"\0") for name, content in contents.items()
    }
    head = struct.pack("<QQ", 1, len(arrays))
    for name, array in arrays.items():
        head += struct.pack("<QQQQ", len(name) + 1, codes[name], array.ndim, len(padded[name]))
    head += b"".join(name.encode() + b"\0" for name in arrays)
    head += b"".join(struct.pack(f"<{array.ndim}i", *array.shape) for array in arrays.values())
    offset = -(len(head) + 8) % 256
    return head + struct.pack("<Q", offset) + bytes(offset) + b"".join(padded.values())


def test_both_formats_hold_the_same_model(tmp_path):
    options, arrays = random_model(tmp_path, **KINDS["all tied"])
    (tmp_path / "model.bin").write_bytes(binary(arrays, options))
    first, second = (weights(marian.read(tmp_path / name).model) for name in ("model.npz", "model.bin"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def rounded(array, name):
    """A matrix as integers, and their multiplier as the last four bytes; embeddings are not transposed."""
    multiplier = np.float32(127 / abs(array).max())
    values = np.rint(array * multiplier).astype(np.int8)
    return (values if "Wemb" in name else values.T).tobytes() + multiplier.tobytes()


@pytest.mark.parametrize("code", [0x10001, 0x4101])
def test_a_quantised_model_is_the_rounded_one(code, tmp_path):
    options, arrays = random_model(tmp_path, **KINDS["recurrence"])
    is_matrix = {
        name: len(array) > 1 and (code == 0x4101 or "Wemb" not in name) for name, array in arrays.items()
    }
    codes = {name: code for name in arrays if is_matrix[name]}
    contents = {name: rounded(arrays[name], name) for name in codes}
    (tmp_path / "small.bin").write_bytes(
        binary(
            arrays | {"encoder_l1_self_Wq_QuantMultA": np.ones((1, 1), np.float32)}, options, codes, contents
        )
    )
    found, expected = (weights(marian.read(tmp_path / name).model) for name in ("small.bin", "model.npz"))
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=float(tensor.abs().max()) / 200)
    assert not torch.equal(
        found["encoder.0.feed_forward.inner.weight"], expected["encoder.0.feed_forward.inner.weight"]
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Both formats of a model, by the endings of their names."""
    folder = tmp_path_factory.mktemp("marian")
    _, arrays = random_model(folder, **KINDS["all tied"])
    small = {name: array for name, array in arrays.items() if name in ("Wemb", "decoder_ff_logit_out_b")}
    save(folder / "small.npz", small, {})
    return {".npz": (folder / "small.npz").read_bytes(), ".bin": binary(small, {})}


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_damaged_file_ends_with_a_sentence(files, tmp_path_factory, data):
    suffix = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[suffix])
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(
            st.integers(0, len(content) - 1) if data.draw(st.booleans()) else st.integers(0, 400)
        )
        content[min(place, len(content) - 1)] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path_factory.mktemp("damaged") / f"model{suffix}"
    path.write_bytes(content)
    with suppress(DragomanError):
        read_arrays(path)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda path: np.savez_compressed(path, a=np.zeros(10**6)), "compressed"),
        (lambda path: np.savez(path, a=np.array([{}], dtype=object)), "not an array of numbers"),
        (lambda path: np.savez(path, a=np.asfortranarray(np.ones((2, 3)))), "row by row"),
        (lambda path: path.write_bytes(b"no archive"), "cannot be read"),
    ],
)
def test_what_marian_does_not_write_is_refused(write, sentence, tmp_path):
    write(tmp_path / "model.npz")
    with pytest.raises(DragomanError, match=sentence):
        read_arrays(tmp_path / "model.npz")


def test_an_array_is_not_larger_than_its_data(tmp_path):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)}
    )
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("Wemb.npy", content.getvalue())
    with pytest.raises(DragomanError, match=r"Wemb\.npy is not an array of numbers"):
        read_arrays(tmp_path / "model.npz")


@pytest.mark.short_form(3)
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"type": "s2s"}, "type is 's2s'"),
        ({"transformer-ffn-depth": 3}, "transformer-ffn-depth is 3"),
        ({"transformer-decoder-ffn-depth": 1}, "transformer-decoder-ffn-depth is 1"),
        ({"transformer-ffn-activation": "gelu"}, "transformer-ffn-activation is 'gelu'"),
        ({"transformer-no-projection": True}, "transformer-no-projection is True"),
        ({"transformer-decoder-autoreg": "average-attention"}, "transformer-decoder-autoreg is 'average"),
        ({"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"}, "dec-cell is 'gru'"),
        ({**RECURRENT, "transformer-rnn-projection": True}, "transformer-rnn-projection is True"),
        ({"transformer-postprocess-emb": "nd"}, "transformer-postprocess-emb is 'nd'"),
        ({"transformer-postprocess": "dar"}, "transformer-postprocess 'dar'"),
        ({"transformer-preprocess": "n"}, "transformer-preprocess 'n'"),
        ({"right-left": True}, "right-left is True"),
        ({"lemma-dim-emb": 8}, "lemma-dim-emb is 8"),
        ({"input-types": ["sequence", "class"]}, "input-types"),
        ({"dim-emb": "wide"}, "dim-emb is 'wide'"),
        ({"dim-emb": 15}, "dim-emb is 15"),
        ({"transformer-heads": 3}, "heads"),
        ({"enc-depth": 1}, "has the tensor encoder_l2"),
        ({"enc-depth": 3}, "lacks the tensor encoder_l3"),
    ],
)
def test_what_dragoman_lacks_is_refused_by_its_name(options, sentence, tmp_path):
    theirs, arrays = random_model(tmp_path)
    save(tmp_path / "model.npz", arrays, theirs | options)
    with pytest.raises(DragomanError, match=sentence):
        marian.read(tmp_path)


def test_vocabularies_that_are_missing_or_of_factors_are_refused(tmp_path):
    random_model(tmp_path)
    (tmp_path / "decoder.yml").write_text("vocabs: [a.fsv, a.fsv]")
    with pytest.raises(DragomanError, match="has not the vocabularies"):
        marian.read(tmp_path)
    (tmp_path / "a.fsv").write_text("")
    with pytest.raises(DragomanError, match="does not read factors"):
        marian.read(tmp_path)


TRAINED = ModelSettings(
    d_model=WIDTH,
    d_ff=WIDER,
    heads=2,
    encoder_layers=2,
    decoder_layers=1,
    positions="sinusoidal-tensor2tensor",
)
OURS = {
    "all tied": TRAINED,
    "target tied, biases": replace(TRAINED, tied="target", attention_bias=True, output_bias=True),
    "nothing tied, swish": replace(TRAINED, tied="none", activation="swish", decoder_d_ff=NARROWER),
}

ZERO_START = {"recurrence": replace(TRAINED, decoder_mixer="ssru", norm="pre", output_bias=True)}


def trained(settings, zero_start=False):
    """A random model of ours and its tokenizers."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train([*SOURCE, *TARGET], "unigram", TokenizerSettings(byte_fallback=False), 60)
    model = build_model(settings, len(tokenizer), len(tokenizer)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        if zero_start:
            model.target_embedding.weight[START] = 0
    return model, Tokenizers(tokenizer, tokenizer)


@pytest.mark.parametrize("kind", OURS)
def test_an_exported_model_computes_the_same_and_comes_back_bit_by_bit(kind, tmp_path):
    model, tokenizers = trained(OURS[kind])
    marian.write(model, tokenizers, tmp_path)
    back = marian.read(tmp_path)
    source, target = [9, 4, 7, 12, 6, END], [5, 11, 8, END]
    found, expected = (our_log_probs(each, source, target) for each in (back.model, model))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert back.tokenizers.source.model == tokenizers.source.model
    assert back.tokenizers.source is back.tokenizers.target
    again = tmp_path / "again"
    again.mkdir()
    marian.write(back.model, back.tokenizers, again)
    assert (again / "model.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


@pytest.mark.parametrize("kind", [*OURS, "recurrence"])
def test_a_start_of_zeros_changes_no_weight(kind, tmp_path):
    model, tokenizers = trained((OURS | ZERO_START)[kind], zero_start=True)
    marian.write(model, tokenizers, tmp_path)
    back = weights(marian.read(tmp_path).model)
    assert all(torch.equal(tensor, back[name]) for name, tensor in weights(model).items())


def test_marian_translates_an_exported_model_where_it_is_installed(tmp_path):
    pytest.importorskip("pymarian")
    model, tokenizers = trained(OURS["all tied"])
    marian.write(model, tokenizers, tmp_path)
    engine = marian.engine(tmp_path, (same_ids(tokenizers.source), same_ids(tokenizers.target)))
    assert verify(engine, model, tokenizers, samples(tokenizers, count=2)) < 1e-4


@pytest.mark.parametrize(
    "settings", [{"positions": "sinusoidal"}, {"norm": "pre"}, {"activation": "gelu"}, {"alignment_head": 2}]
)
def test_what_marian_lacks_is_not_exported(settings, tmp_path):
    model, tokenizers = trained(replace(TRAINED, **settings))
    with pytest.raises(DragomanError, match=f"its {next(iter(settings))} is"):
        marian.write(model, tokenizers, tmp_path)


def test_a_start_that_a_recurrence_cannot_give_back_is_not_exported(tmp_path):
    model, tokenizers = trained(replace(TRAINED, decoder_mixer="ssru"))
    with pytest.raises(DragomanError, match="begins with an embedding of zeros"):
        marian.write(model, tokenizers, tmp_path)
