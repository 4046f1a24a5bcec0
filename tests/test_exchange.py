"""Export and import by the command line; a model that differs in the other engine, or is damaged, leaves
nothing behind.
"""

import argparse
import json
import os
import pickle
import re
import sys
import zipfile
from pathlib import Path

import pytest
import sentencepiece
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import interop
from dragoman.interop import huggingface
from dragoman.interop.joeynmt import character_tokenizer, read_yaml
from dragoman.interop.load import languages_of
from dragoman.interop.pickles import load_pickle
from dragoman.interop.vocabulary import (
    Vocabulary,
    empty_sentencepiece,
    load_sentencepiece,
    with_pieces,
    word_tokenizer,
)
from dragoman.interop.weights import Tensors
from dragoman.interop.weights import build_model as build_imported
from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import Transformer
from dragoman.model.weights import weights
from dragoman.system.errors import DragomanError
from dragoman.system.files import check_folder
from dragoman.text.settings import UNKNOWN_LANGUAGE, Languages, TokenizerSettings
from dragoman.text.subword_nmt import make_segmenter
from dragoman.text.tokenizer import UNKNOWN_TEXT, Tokenizer
from dragoman.translation.model_folder import StoredModel, save_model
from tests.test_contract import LINES
from tests.test_huggingface import SIZES, SOURCE, marian, ours

TEXT = "".join(f"{line}\n" for line in SOURCE).encode()


@pytest.fixture
def run(tmp_path):
    model, tokenizers = ours(ModelSettings(**SIZES))
    more = 50, Languages("en", "pt-BR")
    save_model(tmp_path / "run" / "model", model, model.settings, tokenizers, *more)
    return tmp_path / "run"


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [["huggingface"], ["ctranslate2"], ["ctranslate2", "--precision", "int8"]], ids=" ".join
)  # tests/test_onnx.py has ONNX
def test_an_export_is_written_after_verification(options, run, tmp_path, command_line):
    status, _, err = command_line("export", run, "--to", *options, "--out", tmp_path / "there")
    assert status == 0
    names = {"huggingface": "a model of transformers", "ctranslate2": "a CTranslate2 model"}
    for precision in ("float32", *options[2:]):
        assert f"Writing {names[options[0]]} in {precision}.\nComparing tokens" in err
    assert err.count(", log-probabilities and greedy translations of 8 sentences in") == 1
    assert "there: for 8 sentences the log-probabilities there and here differ by" in err
    check_folder(tmp_path / "there")


@pytest.mark.long
def test_an_exported_model_translates_alike_after_import(run, tmp_path, command_line):
    (tmp_path / "text").write_bytes(b"\n" + TEXT)
    samples = ["--samples", tmp_path / "text"]
    command_line("export", run, "--to", "huggingface", "--out", tmp_path / "there", *samples)
    back = ["import", tmp_path / "there", "--from", "huggingface", "--out", tmp_path / "back", *samples]
    status, _, err = command_line(*back)
    assert status == 0
    assert "greedy translations of 4 sentences in transformers and here.\nFor 4 sentences the log" in err
    before, after = (command_line("translate", folder, stdin=TEXT)[1] for folder in (run, tmp_path / "back"))
    assert before == after
    assert len(before.splitlines()) == 4
    for folder in (run, tmp_path / "back"):
        stored = StoredModel.load(folder)
        assert (stored.longest_trained, stored.languages) == (50, Languages("en", "pt-BR"))
    status, _, err = command_line(*back)
    assert status == 2
    assert "back exists already; choose another --out, or delete it." in err


@given(st.lists(st.builds(Languages, *[st.sampled_from([UNKNOWN_LANGUAGE, "aa", "bb"])] * 2), max_size=3))
def test_each_language_is_that_of_the_first_place_that_knows_it(places):
    found = languages_of(*places)
    for side in ("source", "target"):
        codes = [getattr(languages, side) for languages in places]
        known = [code for code in codes if code != UNKNOWN_LANGUAGE]
        assert getattr(found, side) == (known or [UNKNOWN_LANGUAGE])[0]


def test_an_export_that_fails_verification_is_not_written(run, tmp_path, command_line):
    (tmp_path / "text").write_text(
        ">>eng<< ein Mann\n"
    )  # which transformers takes for the name of a language
    export = [
        "export",
        run,
        "--to",
        "huggingface",
        "--out",
        tmp_path / "there",
        "--samples",
        tmp_path / "text",
    ]
    status, _, err = command_line(*export)
    assert status == 2
    assert "transformers tokenizes '>>eng<< ein Mann' as <unk> " in err
    assert err.endswith(f"Nothing was written to {tmp_path / 'there'}.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "text"]


def test_an_import_that_fails_verification_is_not_written(tmp_path, command_line):
    (tmp_path / "text").write_text("ein >>eng<< Mann\n")  # which we take for the name of a language
    arguments = [
        "import",
        marian(tmp_path / "theirs"),
        "--from",
        "huggingface",
        "--out",
        tmp_path / "run",
        "--samples",
        tmp_path / "text",
    ]
    status, _, err = command_line(*arguments)
    assert status == 2
    assert "transformers tokenizes 'ein >>eng<< Mann' as" in err
    assert not (tmp_path / "run").exists()


def test_an_import_without_the_other_engine_reports_that_it_is_not_compared(
    tmp_path, command_line, monkeypatch
):
    folder = marian(tmp_path / "theirs")
    monkeypatch.setitem(sys.modules, "transformers", None)
    status, _, err = command_line("import", folder, "--from", "huggingface", "--out", tmp_path / "run")
    assert status == 0
    assert (
        "transformers is not installed, so nothing was compared (pip install 'dragoman[huggingface]'); the "
        "names and shapes" in err
    )


def test_an_export_without_the_other_engine_is_refused(run, tmp_path, command_line, monkeypatch):
    for name, package in (
        ("huggingface", "transformers"),
        ("ctranslate2", "ctranslate2"),
        ("onnx", "onnxruntime"),
    ):
        with monkeypatch.context() as without:
            without.delitem(sys.modules, f"dragoman.interop.{name}", raising=False)
            without.delattr(interop, name, raising=False)
            without.setitem(sys.modules, package, None)
            status, _, err = command_line("export", run, "--to", name, "--out", tmp_path / "there")
        assert status == 2
        assert re.search(rf"{package}(, which)? is not installed", err)
        assert f"pip install 'dragoman[{name}]'" in err
        assert not (tmp_path / "there").exists()


def test_contradictory_options_and_missing_files_are_refused(run, tmp_path, command_line):
    (tmp_path / "blank").write_text("\n \n")
    out, link, package = ["--out", tmp_path / "there"], tmp_path / "link", tmp_path / "a.argosmodel"
    package.mkdir()
    link.symlink_to(package)
    for arguments, message in (
        (
            ["export", run, "--to", "onnx", "--precision", "int8", *out],
            "--precision is for --to ctranslate2 or argos, and not onnx; give that, or leave --precision",
        ),
        (
            ["export", run, "--to", "onnx", "--samples", tmp_path / "blank", *out],
            "blank has no sentence to compare with",
        ),
        (["export", run, "--to", "onnx", "--out", run], "run exists already; choose another --out"),
        (["export", run, "--to", "onnx", "--out", link], "link exists already; choose another --out"),
        (["export", run, "--to", "argos", "--out", package], "a.argosmodel exists already; choose another"),
        (
            ["export", run, "--to", "onnx", "--out", run / "model" / "x"],
            f"{run / 'model' / 'x'} is in the folder of the model {run / 'model'}; choose another --out.",
        ),
        (["export", tmp_path, "--to", "onnx", *out], "holds runs, not a model"),
        (["import", tmp_path / "none", "--from", "huggingface", *out], "There is no "),
        (["import", tmp_path, "--from", "huggingface", *out], "config.json cannot be read"),
    ):
        status, _, err = command_line(*arguments)
        assert status == 2
        assert message in err
        assert not (tmp_path / "there").exists()


def test_settings_of_unexpected_types_are_refused(tmp_path, command_line, monkeypatch):
    torch.save(
        {"args": argparse.Namespace(arch="transformer", dropout="much"), "model": {"weight": torch.ones(2)}},
        tmp_path / "model.pt",
    )
    status, _, err = command_line("import", tmp_path, "--from", "fairseq", "--out", tmp_path / "run")
    assert status == 2
    assert "model.pt: dropout is 'much'; it has to be a number." in err
    (tmp_path / "text").write_text("a\n")
    samples = ["--samples", tmp_path / "text"]
    folder = marian(tmp_path / "theirs")
    monkeypatch.setitem(sys.modules, "transformers", None)
    status, _, err = command_line(
        "import",
        folder,
        "--from",
        "huggingface",
        "--out",
        tmp_path / "run",
        *samples,
    )
    assert status == 2
    assert "--samples needs transformers: pip install 'dragoman[huggingface]'" in err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            (
                ModelSettings(architecture, d_model=8, encoder_layers=1, decoder_layers=1),
                f"holds no Transformer but the architecture {architecture}, which none of these formats has",
            )
            for architecture in ("gru", "conv", "lstm-enriched")
        ),
        (
            ModelSettings(**SIZES, norm="batch", neighbourhood=4),
            "holds a variant of the Transformer (neighbourhood, norm), which none of these formats can hold",
        ),
    ],
    ids=["gru", "conv", "lstm-enriched", "variant"],
)
def test_what_no_format_holds_is_not_exported(tmp_path, command_line, settings, message):
    _, tokenizers = ours(ModelSettings(**SIZES))
    model = build_model(settings, *[len(tokenizers.source)] * 2)
    save_model(tmp_path / "run" / "model", model, settings, tokenizers)
    status, _, err = command_line("export", tmp_path / "run", "--to", "onnx", "--out", tmp_path / "there")
    assert status == 2
    assert message in err


class Harm:
    """What a pickle may do to who loads it."""

    def __init__(self, call=open, *arguments):
        self.what = call, arguments or ("harm", "w")

    def __reduce__(self):
        return self.what


def repacked(path, out, compressed=None):
    """Write the parts of a file of torch.save compressed, or the one of this number alone."""
    with zipfile.ZipFile(path) as parts, zipfile.ZipFile(out, "w") as packed:
        for number, name in enumerate(parts.namelist()):
            kind = zipfile.ZIP_DEFLATED if compressed in (None, number) else zipfile.ZIP_STORED
            packed.writestr(name, parts.read(name), kind)


def test_no_code_in_a_pickle_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": {"weight": torch.ones(2)}, "extra": Harm()}, tmp_path / "bad.pt")
    (tmp_path / "old.pt").write_bytes(pickle.dumps({"extra": Harm()}))
    torch.save([1], tmp_path / "list.pt")
    torch.save({"weight": torch.ones(999)}, tmp_path / "cut.pt")
    repacked(tmp_path / "cut.pt", tmp_path / "bomb.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "cut.pt").read_bytes()[:-999])
    (tmp_path / "empty.pt").touch()
    os.mkfifo(tmp_path / "pipe.pt")
    torch.save({"a": Harm(os.system, "touch harm")}, tmp_path / "system.pt")
    for name, message in (
        (
            "bad.pt",
            "bad.pt holds _?io.open, which is neither tensor nor plain value; no code of the file was",
        ),
        ("bomb.pt", "bomb.pt has compressed parts, which torch.save does not write; it was not read"),
        ("old.pt", "old.pt is damaged, or is not a checkpoint of PyTorch; no code of it was run"),
        ("list.pt", "list.pt holds a list where a checkpoint is a dictionary"),
        ("cut.pt", "cut.pt is damaged"),
        ("empty.pt", "empty.pt is damaged"),
        ("none.pt", "none.pt cannot be read: No such file or directory"),
        (".", "cannot be read: Is a directory"),
        ("pipe.pt", "pipe.pt is not a file; a file of a model is wanted"),
        ("system.pt", "system.pt holds posix.system, which is neither tensor nor plain value"),
    ):
        with pytest.raises(DragomanError, match=message):
            load_pickle(tmp_path / name)
    assert not (tmp_path / "harm").exists()


def test_one_compressed_part_is_enough_to_refuse_a_pickle(tmp_path):
    torch.save({"weight": torch.ones(999)}, tmp_path / "model.pt")
    with zipfile.ZipFile(tmp_path / "model.pt") as parts:
        count = len(parts.namelist())
    for number in range(count):
        repacked(tmp_path / "model.pt", tmp_path / "bomb.pt", number)
        with pytest.raises(DragomanError, match="bomb.pt has compressed parts"):
            load_pickle(tmp_path / "bomb.pt")
    repacked(tmp_path / "model.pt", tmp_path / "stored.pt", count)
    assert torch.equal(load_pickle(tmp_path / "stored.pt")["weight"], torch.ones(999))


def test_a_sentencepiece_model_that_ends_after_any_of_its_parts_is_refused(tmp_path):
    whole = Tokenizer.train(["ein Mann"], "char", TokenizerSettings(), 20).model
    model = empty_sentencepiece()
    model.ParseFromString(whole)
    for count in range(len(model.pieces) + 1):
        part = type(model)(pieces=model.pieces[:count])
        if count == len(model.pieces):
            part.trainer_spec.CopyFrom(model.trainer_spec)
        assert whole.startswith(part.SerializeToString())
        (tmp_path / "source.spm").write_bytes(part.SerializeToString())
        with pytest.raises(DragomanError, match="source.spm is not a whole SentencePiece model"):
            load_sentencepiece(tmp_path / "source.spm")


@given(st.data())
def test_a_vocabulary_has_each_foreign_token_once_and_the_special_ones_first(data):
    pieces = data.draw(st.lists(st.text(max_size=3), min_size=3, max_size=9, unique=True))
    pieces += data.draw(st.lists(st.sampled_from(["<s>", "<start>", "<dragoman:start0>"]), unique=True))
    pieces = list(dict.fromkeys(pieces))
    pad, unknown, end = data.draw(st.permutations(range(len(pieces))))[:3]
    start = data.draw(st.sampled_from(range(len(pieces))))
    vocabulary = Vocabulary.from_foreign(pieces, pad=pad, unknown=unknown, start=start, end=end)
    is_own = start not in (pad, unknown, end)
    own = [token for token in range(len(vocabulary.rows)) if is_own or token != START]
    assert [vocabulary.rows[token] for token in (PAD, UNKNOWN, START, END)] == [pad, unknown, start, end]
    assert sorted(vocabulary.rows[token] for token in own) == list(range(len(pieces)))
    assert all(vocabulary.pieces[token] == pieces[vocabulary.rows[token]] for token in own)
    assert len(set(vocabulary.pieces)) == len(vocabulary.pieces) == len(vocabulary.rows)
    assert vocabulary.never_written == ([] if is_own else [START])


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \0▁"), min_size=1, max_size=4)
NEW = ["<pad>", "<unk>", "<s>", "</s>"]


@settings(deadline=None, max_examples=25)
@given(st.lists(WORDS.filter(lambda word: word not in NEW), min_size=1, max_size=6, unique=True), st.data())
def test_any_words_of_a_vocabulary_are_read_as_themselves_and_written_again(words, data):
    text = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=5))
    tokenizer = word_tokenizer([*NEW, *words])
    [ids] = tokenizer.encode([" ".join(text)])
    assert ids == [words.index(word) + len(NEW) for word in text]
    assert tokenizer.decode(ids) == " ".join(text)
    assert tokenizer.decode([*ids, UNKNOWN]) == f"{' '.join(text)} {UNKNOWN_TEXT}"


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(" ".join("aﬁＡ①é²")), max_size=9).map("".join))
def test_any_characters_of_a_vocabulary_are_read_as_themselves_and_written_again(text):
    letters = ["▁", *"aﬁＡ①é²"]
    tokenizer = character_tokenizer([*NEW, *letters])
    [ids] = tokenizer.encode([text])
    assert ids == [letters.index(letter.replace(" ", "▁")) + len(NEW) for letter in text]
    assert tokenizer.decode(ids) == text


@settings(deadline=None, max_examples=25)
@given(st.data(), st.booleans())
def test_pieces_have_the_order_of_a_vocabulary_and_only_those_of_the_model_and_languages_are_encoded(
    data, encode_new
):
    trained = Tokenizer.train(
        LINES, "bpe", TokenizerSettings(normalization="identity", byte_fallback=False), 40
    )
    known = trained.pieces(range(END + 1, len(trained)))
    language, new = ">>de<<", [">>half", "half<<", "<UNK>", "zz", "\N{LATIN SMALL LETTER ETH}"]
    pieces = [*NEW, *data.draw(st.permutations([*known, *new, language, known[0], "", "a\0b"]))]
    model = empty_sentencepiece()
    model.ParseFromString(trained.model)
    model.pieces[UNKNOWN].piece, model.trainer_spec.unk_surface = "<UNK>", " ?? "
    tokenizer = with_pieces(model, pieces, encode_new=True) if encode_new else with_pieces(model, pieces)
    first = {piece: number for number, piece in reversed([*enumerate(pieces)])}
    for number, piece in enumerate(tokenizer.pieces(range(len(pieces)))):
        expected = "\u2581" + language if pieces[number] == language else pieces[number]
        is_itself = first[pieces[number]] == number and pieces[number] not in ("", "a\0b")
        assert piece == (expected if is_itself else f"<dragoman:{number}>")
    line = data.draw(st.sampled_from(LINES))
    ids = [pieces.index(piece) for piece in trained.pieces(trained.encode([line])[0])]
    assert tokenizer.encode([line, f"{language} {line}"]) == [ids, [pieces.index(language), *ids]]
    assert tokenizer.decode(ids) == line
    for piece in new:
        assert (pieces.index(piece) in tokenizer.encode([piece])[0]) == (encode_new and len(piece) <= 2)
        assert tokenizer.decode([pieces.index(piece)]) == piece
    assert tokenizer.decode([*ids, UNKNOWN]) == line + UNKNOWN_TEXT


LAYERS = weights(Transformer(ModelSettings(**SIZES, attention_bias=True), 5, 5))
TABLES = [torch.randn(9, SIZES["d_model"], generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_a_built_model_has_the_embeddings_and_biases_of_its_tensors(data):
    """Whatever of them is equal, or zero, so that it can be shared or left out."""
    orders = st.sampled_from([(0, 1, 2, 3), (5, 0, 7, 2)])
    sides = [Vocabulary.from_foreign(list("abcdefghi"), *data.draw(orders)) for _ in range(2)]
    embeddings = tuple(data.draw(st.sampled_from(TABLES)) for _ in range(3))
    bias = data.draw(st.sampled_from([None, torch.zeros(9), torch.arange(9.0)]))
    present = data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    layers = {
        name: weight.detach()
        if name.endswith("weight")
        else torch.randn(weight.shape, generator=generator) * (torch.rand((), generator=generator) < present)
        for name, weight in LAYERS.items()
        if "embedding" not in name
    }
    own = ModelSettings(**SIZES, attention_bias=True)
    built = build_imported(own, layers, embeddings, bias, tuple(sides), Path("m.pt"))
    found = weights(built)
    for name, layer in layers.items():
        assert torch.equal(found.get(name, torch.zeros_like(layer)), layer), name
    modules = (built.source_embedding, built.target_embedding, built.output)
    for module, side, table in zip(modules, (sides[0], *[sides[1]] * 2), embeddings, strict=True):
        assert torch.equal(module.weight, table[side.rows])
    expected = torch.zeros(9) if bias is None else bias[sides[1].rows]
    assert torch.equal(torch.zeros(9) if built.output_bias is None else built.output_bias, expected)


def test_a_tensor_that_says_it_is_larger_than_its_data_is_refused():
    tensors = Tensors({"weight": torch.zeros(1).expand(4, 4), "own": torch.zeros(8, 4)[:4]}, Path("m.pt"))
    assert tensors.take("own", (4, 4)).shape == (4, 4)
    with pytest.raises(DragomanError, match="m.pt: weight says that it is larger than its data"):
        tensors.take("weight", (4, 4))


def test_missing_extras_are_named(tmp_path, monkeypatch):
    monkeypatch.delattr(sentencepiece, "sentencepiece_model_pb2", raising=False)
    for package, read, message in (
        (
            "sentencepiece.sentencepiece_model_pb2",
            empty_sentencepiece,
            "needs protobuf: pip install 'dragoman",
        ),
        (
            "subword_nmt.apply_bpe",
            lambda: make_segmenter("", []),
            "split by subword-nmt, which is not installed: pip install subword-nmt",
        ),
        (
            "yaml",
            lambda: read_yaml(tmp_path / "config.yaml"),
            "config.yaml needs PyYAML: pip install 'dragoman",
        ),
    ):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            with pytest.raises(DragomanError, match=message):
                read()


def test_a_source_vocabulary_without_padding_is_refused(tmp_path):
    folder = marian(tmp_path / "theirs", share_encoder_decoder_embeddings=False)
    pieces = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(
        json.dumps({"padding" if piece == "<pad>" else piece: number for piece, number in pieces.items()})
    )
    with pytest.raises(DragomanError, match="vocab.json lacks <pad>"):
        huggingface.read(folder)
