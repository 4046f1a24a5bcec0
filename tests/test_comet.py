"""COMET: the library's own numbers from a local checkpoint, of which no code is run.

What needs the library is skipped where it is not installed; it wants former releases of numpy and protobuf.
Without it, a model of the tests takes the place of a checkpoint's.
"""

import hashlib
import itertools
import os
import random
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType, SimpleNamespace

import pytest
import sacrebleu.significance
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric, Score, Signature

from dragoman.evaluation import comet as evaluation_comet
from dragoman.evaluation.comet import Comet, environment
from dragoman.evaluation.compare import paired_bootstrap_of_means
from dragoman.system.errors import DragomanError
from tests.test_contract import LINES, save_random_model

TEXTS = [f"{one} {other}" for one, other in itertools.pairwise(LINES)]


class Mean(Metric):
    """The mean of numbers that are given as text, for sacreBLEU's own test."""

    _SIGNATURE_TYPE = Signature

    def _preprocess_segment(self, sent):
        return sent

    def _extract_corpus_statistics(self, hypotheses, references):
        return [[float(text), 1] for text in hypotheses]

    def _aggregate_and_compute(self, stats):
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats):
        return Score("mean", stats[0] / stats[1])

    def _compute_segment_statistics(self, *_):
        raise NotImplementedError

    _extract_reference_info = _compute_segment_statistics


@pytest.mark.parametrize("gap", [0, 0.05, 0.1, 1])
def test_the_p_value_of_a_mean_is_sacrebleus(gap):
    chance = random.Random(4)
    theirs = [chance.random() for _ in range(50)]
    ours = [score + gap + chance.gauss(0, 0.3) for score in theirs]
    systems = [("baseline", list(map(str, theirs))), ("system", list(map(str, ours)))]
    metric = Mean()
    metric.num_refs = 1
    _, table = sacrebleu.significance.PairedTest(systems, {"mean": metric}, None, "bs", 1000)()
    found = paired_bootstrap_of_means("COMET", "s", ours, theirs)
    assert found.p_value == pytest.approx(table["mean"][1].p_value, abs=0.0011)  # sacreBLEU's are float32
    assert (found.score.value, found.baseline.value) == pytest.approx((sum(ours) / 50, sum(theirs) / 50))
    back = paired_bootstrap_of_means("COMET", "s", theirs, ours)
    assert (back.score, back.baseline, back.p_value) == (found.baseline, found.score, found.p_value)
    assert paired_bootstrap_of_means("COMET", "s", ours, ours).p_value == 1


def test_variables_of_the_environment_are_set_for_a_while(monkeypatch):
    monkeypatch.setenv("DRAGOMAN_SET", "before")
    monkeypatch.delenv("DRAGOMAN_UNSET", raising=False)
    before, values = dict(os.environ), {"DRAGOMAN_SET": "1", "DRAGOMAN_UNSET": "2"}
    with environment(values):
        assert os.environ == before | values
    assert os.environ == before
    with pytest.raises(KeyError), environment(values):
        raise KeyError
    assert os.environ == before


def test_a_checkpoint_that_is_not_on_this_machine_and_a_missing_library_are_refused(tmp_path, monkeypatch):
    with pytest.raises(
        DragomanError, match="wmt22-comet-da is not a file. COMET is read from a folder on this"
    ):
        Comet(tmp_path / "Unbabel" / "wmt22-comet-da")
    (tmp_path / "checkpoints").mkdir()
    blob = tmp_path / "cache" / "blobs" / "0"  # Hugging Face's cache has links to such files
    blob.parent.mkdir(parents=True)
    blob.touch()
    (tmp_path / "checkpoints" / "model.ckpt").symlink_to(blob)
    with pytest.raises(DragomanError, match="hparams.yaml is not a file"):
        Comet(tmp_path / "checkpoints" / "model.ckpt")
    (tmp_path / "hparams.yaml").write_text("")
    monkeypatch.setitem(sys.modules, "comet", None)
    monkeypatch.chdir(tmp_path / "checkpoints")
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[comet\]'"):
        Comet(Path("model.ckpt"))


# ---- a library of the tests


class Judge:
    """A model as COMET's, whose score of a line depends on each of its three texts, and on which is which."""

    hparams = SimpleNamespace(class_identifier="judge")

    def predict(self, samples, gpus, num_workers, progress_bar):
        assert (gpus in (0, 1), num_workers, progress_bar) == (True, 0, False)
        return SimpleNamespace(scores=[self.score(**sample) for sample in samples])

    @staticmethod
    def score(src, mt, ref):
        return (len(src) + 3 * len(mt) + 10 * len(ref)) / 100


@contextmanager
def library(load):
    """The library, which loads checkpoints by this function."""
    package = ModuleType("comet")
    package.load_from_checkpoint = load
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "comet", package)
        patch.setattr(evaluation_comet, "version", lambda name: f"{name}-9")
        yield


def checkpoint_in(folder, settings=""):
    """The files of a checkpoint: what is in the first is left to the library."""
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "model.ckpt").write_bytes(b"weights")
    (folder / "hparams.yaml").write_text(settings)
    return folder / "checkpoints" / "model.ckpt"


TRIPLES = st.lists(st.tuples(*[st.text(max_size=9)] * 3), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    with library(lambda path, local_files_only: Judge()):
        return Comet(checkpoint_in(tmp_path_factory.mktemp("judge")))


@settings(max_examples=15)
@given(TRIPLES)
def test_a_line_has_a_hundred_times_the_score_of_its_texts_and_a_set_the_mean(judge, lines):
    comet, (sources, hypotheses, references) = judge, map(list, zip(*lines, strict=True))
    expected = [100 * Judge.score(*line) for line in lines]
    found = comet.line_scores(sources, hypotheses, references)
    assert found == pytest.approx(expected)
    score = comet.score(found)
    digest = hashlib.sha256(b"weights").hexdigest()[:12]
    signature = f"model:judge|sha256:{digest}|scale:100|comet:unbabel-comet-9"
    assert (score.name, score.signature) == ("COMET", signature)
    assert score.value == pytest.approx(sum(expected) / len(expected))
    compared = comet.compare(found, [number - 1 for number in found])
    assert (compared.score.name, compared.score.signature) == ("COMET", f"{signature}|bs:1000|seed:12345")
    assert compared.score.value - compared.baseline.value == pytest.approx(1)
    for others in (references[1:], [*references, "x"]):
        with pytest.raises(DragomanError, match=f"Translations: {len(lines)}, references: {len(others)};"):
            comet.line_scores(sources, hypotheses, others)


def test_evaluate_gives_comet_each_text_in_its_place(tmp_path, command_line):
    save_random_model(tmp_path, "word")
    sides = {"source": LINES[:6], "target": LINES[3:9], "other": LINES[6:12]}
    for name, lines in sides.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = ["-s", tmp_path / "source", "-t", tmp_path / "target", "--baseline", tmp_path / "other"]
    out = ["--hypotheses", tmp_path / "hypotheses", "--max-extra-tokens", 4]
    with library(lambda path, local_files_only: Judge()):
        checkpoint = checkpoint_in(tmp_path)
        status, printed, _ = command_line("evaluate", tmp_path, *files, *out, "--comet", checkpoint)
    assert status == 0
    systems = (tmp_path / "hypotheses").read_text().split("\n")[:-1], sides["other"]
    ours, theirs = (
        sum(map(Judge.score, sides["source"], system, sides["target"])) / 6 * 100 for system in systems
    )
    score, compared = re.findall(r"(?m)^COMET = (.*)", printed)
    assert score.startswith(f"{ours:.2f} ")
    assert compared.startswith(f"{ours:.2f}, baseline {theirs:.2f}: {ours - theirs:+.2f}")


def test_a_checkpoint_is_loaded_where_no_code_is_run_and_nothing_downloaded(tmp_path):
    told, blob = [], tmp_path / "blob"

    def load(path, local_files_only):
        names = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "HF_HUB_OFFLINE"
        told.append((path, local_files_only, *(os.environ[name] for name in names)))
        return Judge()

    checkpoint = checkpoint_in(tmp_path)
    checkpoint.rename(blob)
    checkpoint.symlink_to(blob)  # the settings are near the link
    before = dict(os.environ)
    with library(load):
        Comet(checkpoint)
    assert told == [(str(checkpoint), True, "1", "1")]
    assert os.environ == before


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            UnpicklingError("exec"),
            "is damaged, or holds more than tensors and plain values. No code was run.",
        ),
        (OSError("no tokenizer\nat all"), r"cannot be loaded by COMET \(OSError: no tokenizer\)\. It may be"),
        (KeyError("hparams"), r"cannot be loaded by COMET \(KeyError: 'hparams'\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_library_refuses_is_told_with_the_file(tmp_path, error, message):
    def load(path, local_files_only):
        raise error

    with library(load), pytest.raises(DragomanError, match=f"model.ckpt {message}"):
        Comet(checkpoint_in(tmp_path))


def test_settings_that_would_run_code_are_refused_before_the_library_sees_them(tmp_path):
    checkpoint, loaded = checkpoint_in(tmp_path, "x: !!python/object/apply:os.getcwd []\n"), []
    refused = pytest.raises(DragomanError, match="hparams.yaml cannot be read as YAML")
    with library(lambda *given, **more: loaded.append(given)), refused:
        Comet(checkpoint)
    assert loaded == []


# ---- with the library


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny random COMET model, made and saved by COMET's own classes."""
    pytest.importorskip("comet")
    import pytorch_lightning
    import tokenizers
    import torch
    import yaml
    from comet.models import RegressionMetric
    from transformers import XLMRobertaConfig, XLMRobertaTokenizerFast

    folder = tmp_path_factory.mktemp("comet")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = tokenizers.trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(TEXTS, trainer)
    XLMRobertaTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder / "encoder")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    XLMRobertaConfig(tokenizer.get_vocab_size(), **sizes, **ids).save_pretrained(folder / "encoder")
    torch.manual_seed(1)
    options = {"load_pretrained_weights": False, "local_files_only": True, "hidden_sizes": [24, 8]}
    model = RegressionMetric(pretrained_model=str(folder / "encoder"), **options)
    trainer = pytorch_lightning.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    trainer.strategy.connect(model)
    (folder / "checkpoints").mkdir()
    trainer.save_checkpoint(folder / "checkpoints" / "model.ckpt")
    (folder / "hparams.yaml").write_text(yaml.safe_dump(dict(model.hparams)))
    return folder / "checkpoints" / "model.ckpt"


@pytest.mark.filterwarnings("ignore")
def test_scores_are_those_of_comet_itself(checkpoint):
    import comet

    sources, hypotheses, references = TEXTS[:12], TEXTS[5:17], TEXTS[9:21]
    samples = [
        {"src": source, "mt": hypothesis, "ref": reference}
        for source, hypothesis, reference in zip(sources, hypotheses, references, strict=True)
    ]
    model = comet.load_from_checkpoint(str(checkpoint), local_files_only=True)
    expected = model.predict(samples, gpus=0, progress_bar=False, num_workers=0)
    ours = Comet(checkpoint)
    lines = ours.line_scores(sources, hypotheses, references)
    assert lines == [100 * score for score in expected.scores]
    score = ours.score(lines)
    assert score.value == pytest.approx(100 * expected.system_score)
    assert len(set(lines)) > 6
    assert score.signature.startswith("model:regression_metric|sha256:")
    with pytest.raises(DragomanError, match="Translations: 1, references: 12"):
        ours.line_scores(sources, hypotheses[:1], references)


@pytest.mark.filterwarnings("ignore")
def test_evaluate_adds_comet_and_its_significance(checkpoint, tmp_path, command_line):
    save_random_model(tmp_path, "word")
    for name, lines in (("source", LINES[:6]), ("target", LINES[3:9]), ("other", LINES[6:12])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = ["-s", tmp_path / "source", "-t", tmp_path / "target", "--baseline", tmp_path / "other"]
    status, out, _ = command_line("evaluate", tmp_path, *files, "--comet", checkpoint)
    assert status == 0
    assert [line.split(" = ")[0] for line in out.splitlines()][4::5] == ["COMET", "COMET"]
    assert "|bs:1000|seed:12345]" in out


@pytest.mark.filterwarnings("ignore")
def test_no_code_of_a_checkpoint_is_run_and_no_encoder_downloaded(checkpoint, tmp_path):
    import torch

    class Code:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'run')!r}, 'w')",))

    settings = (checkpoint.parent.parent / "hparams.yaml").read_text()
    (tmp_path / "checkpoints").mkdir()
    other = tmp_path / "checkpoints" / "model.ckpt"
    (tmp_path / "hparams.yaml").write_text(settings)
    torch.save({**torch.load(checkpoint), "callbacks": Code()}, other)
    with pytest.raises(DragomanError, match="holds more than tensors and plain values. No code was run."):
        Comet(other)
    assert not (tmp_path / "run").exists()
    other.write_bytes(checkpoint.read_bytes()[:5000])
    with pytest.raises(DragomanError, match="model.ckpt cannot be loaded by COMET"):
        Comet(other)
    other.write_bytes(checkpoint.read_bytes())
    (tmp_path / "hparams.yaml").write_text(f"{settings}\nx: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(DragomanError, match="cannot be loaded by COMET .ConstructorError"):
        Comet(other)
    missing = torch.load(checkpoint)
    missing["hyper_parameters"]["pretrained_model"] = "xlm-roberta-large"
    torch.save(missing, other)
    (tmp_path / "hparams.yaml").write_text(settings)
    with pytest.raises(
        DragomanError, match="of its encoder, pretrained_model in .*hparams.yaml, are not on this machine"
    ):
        Comet(other)
