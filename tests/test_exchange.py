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

from dragoman import interop
from dragoman.interop import huggingface
from dragoman.interop.joeynmt import read_yaml
from dragoman.interop.pickles import load_pickle
from dragoman.interop.vocabulary import empty_sentencepiece
from dragoman.interop.weights import Tensors
from dragoman.model.settings import ModelSettings
from dragoman.model.transformer import build_model
from dragoman.system.errors import DragomanError
from dragoman.system.files import check_folder
from dragoman.text.subword_nmt import make_segmenter
from dragoman.translation.model_folder import save_model
from tests.test_cli import call
from tests.test_huggingface import SIZES, SOURCE, marian, ours

TEXT = "".join(f"{line}\n" for line in SOURCE).encode()


@pytest.fixture
def run(tmp_path):
    model, tokenizers = ours(ModelSettings(**SIZES))
    save_model(tmp_path / "run" / "model", model, model.settings, tokenizers)
    return tmp_path / "run"


@pytest.mark.parametrize(
    "options", [["huggingface"], ["ctranslate2"], ["ctranslate2", "--precision", "int8"]], ids=" ".join
)  # tests/test_readme.py has ONNX
def test_an_export_is_written_after_verification(options, run, tmp_path, monkeypatch, capsysbinary):
    status, _, err = call(
        monkeypatch, capsysbinary, "export", run, "--to", *options, "--out", tmp_path / "there"
    )
    assert status == 0
    names = {"huggingface": "a MarianMTModel", "ctranslate2": "a CTranslate2 model"}
    for precision in ("float32", *options[2:]):
        assert f"Writing {names[options[0]]} in {precision}.\nComparing tokens" in err
    assert err.count(", log-probabilities and greedy translations of 8 sentences in") == 1
    assert "there: for 8 sentences the log-probabilities there and here differ by" in err
    check_folder(tmp_path / "there")


def test_an_exported_model_translates_alike_after_import(run, tmp_path, monkeypatch, capsysbinary):
    (tmp_path / "text").write_bytes(b"\n" + TEXT)
    samples = ["--samples", tmp_path / "text"]
    call(
        monkeypatch, capsysbinary, "export", run, "--to", "huggingface", "--out", tmp_path / "there", *samples
    )
    back = ["import", tmp_path / "there", "--from", "huggingface", "--out", tmp_path / "back", *samples]
    status, _, err = call(monkeypatch, capsysbinary, *back)
    assert status == 0
    assert "greedy translations of 4 sentences in transformers and here.\nFor 4 sentences the log" in err
    before, after = (
        call(monkeypatch, capsysbinary, "translate", folder, stdin=TEXT)[1]
        for folder in (run, tmp_path / "back")
    )
    assert before == after
    assert len(before.splitlines()) == 4
    status, _, err = call(monkeypatch, capsysbinary, *back)
    assert status == 2
    assert "back exists already; choose another --out, or delete it." in err


def test_an_export_that_fails_verification_is_not_written(run, tmp_path, monkeypatch, capsysbinary):
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
    status, _, err = call(monkeypatch, capsysbinary, *export)
    assert status == 2
    assert "transformers tokenizes '>>eng<< ein Mann' as <unk> " in err
    assert err.endswith(f"Nothing was written to {tmp_path / 'there'}.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "text"]


def test_an_import_that_fails_verification_is_not_written(tmp_path, monkeypatch, capsysbinary):
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
    status, _, err = call(monkeypatch, capsysbinary, *arguments)
    assert status == 2
    assert "transformers tokenizes 'ein >>eng<< Mann' as" in err
    assert not (tmp_path / "run").exists()


def test_an_import_without_the_other_engine_reports_that_it_is_not_compared(
    tmp_path, monkeypatch, capsysbinary
):
    folder = marian(tmp_path / "theirs")
    monkeypatch.setitem(sys.modules, "transformers", None)
    status, _, err = call(
        monkeypatch, capsysbinary, "import", folder, "--from", "huggingface", "--out", tmp_path / "run"
    )
    assert status == 0
    assert (
        "transformers is not installed, so nothing was compared (pip install 'dragoman[huggingface]'); the "
        "names and shapes" in err
    )


def test_an_export_without_the_other_engine_is_refused(run, tmp_path, monkeypatch, capsysbinary):
    for name, package in (
        ("huggingface", "transformers"),
        ("ctranslate2", "ctranslate2"),
        ("onnx", "onnxruntime"),
    ):
        with monkeypatch.context() as without:
            without.delitem(sys.modules, f"dragoman.interop.{name}", raising=False)
            without.delattr(interop, name, raising=False)
            without.setitem(sys.modules, package, None)
            status, _, err = call(
                monkeypatch, capsysbinary, "export", run, "--to", name, "--out", tmp_path / "there"
            )
        assert status == 2
        assert re.search(rf"{package}(, which)? is not installed", err)
        assert f"pip install 'dragoman[{name}]'" in err
        assert not (tmp_path / "there").exists()


def test_contradictory_options_and_missing_files_are_refused(run, tmp_path, monkeypatch, capsysbinary):
    (tmp_path / "blank").write_text("\n \n")
    out, link, package = ["--out", tmp_path / "there"], tmp_path / "link", tmp_path / "a.argosmodel"
    package.mkdir()
    link.symlink_to(package)
    for arguments, message in (
        (
            ["export", run, "--to", "onnx", "--precision", "int8", *out],
            "--precision int8 is for --to ctranslate2 and argos; --to onnx writes float32",
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
        status, _, err = call(monkeypatch, capsysbinary, *arguments)
        assert status == 2
        assert message in err
        assert not (tmp_path / "there").exists()


def test_settings_of_unexpected_types_are_refused(tmp_path, monkeypatch, capsysbinary):
    torch.save(
        {"args": argparse.Namespace(arch="transformer", dropout="much"), "model": {"weight": torch.ones(2)}},
        tmp_path / "model.pt",
    )
    status, _, err = call(
        monkeypatch, capsysbinary, "import", tmp_path, "--from", "fairseq", "--out", tmp_path / "run"
    )
    assert status == 2
    assert "model.pt: dropout is 'much'; it has to be a number." in err
    (tmp_path / "text").write_text("a\n")
    samples = ["--samples", tmp_path / "text"]
    folder = marian(tmp_path / "theirs")
    monkeypatch.setitem(sys.modules, "transformers", None)
    status, _, err = call(
        monkeypatch,
        capsysbinary,
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
def test_what_no_format_holds_is_not_exported(tmp_path, monkeypatch, capsysbinary, settings, message):
    _, tokenizers = ours(ModelSettings(**SIZES))
    model = build_model(settings, *[len(tokenizers.source)] * 2)
    save_model(tmp_path / "run" / "model", model, settings, tokenizers)
    status, _, err = call(
        monkeypatch, capsysbinary, "export", tmp_path / "run", "--to", "onnx", "--out", tmp_path / "there"
    )
    assert status == 2
    assert message in err


class Harm:
    """What a pickle may do to who loads it."""

    def __init__(self, call=open, *arguments):
        self.what = call, arguments or ("harm", "w")

    def __reduce__(self):
        return self.what


def repacked(path, out):
    """Write the parts of a file of torch.save compressed."""
    with zipfile.ZipFile(path) as parts, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as compressed:
        for name in parts.namelist():
            compressed.writestr(name, parts.read(name))


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
