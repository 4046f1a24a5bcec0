"""What `dragoman inspect` cannot show gets a sentence: one line, no traceback, no file."""

from dataclasses import replace

import pytest
import torch

from dragoman.inspection.analyse.mean_effects import mean_head_effects
from dragoman.model.build import build_model
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.model_folder import save_model
from dragoman.translation.translator import Translator
from tests.conftest import MODELS
from tests.test_inspection import translator_of

SENTENCE = "ein Mann fährt Rad"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A Transformer that reads 8 tokens, and an LSTM."""
    folder = tmp_path_factory.mktemp("runs")
    short = replace(MODELS["transformer"], positions="learned", max_positions=8)
    tokenizers = translator_of(MODELS["transformer"]).tokenizers
    torch.manual_seed(3)
    for name, settings in (("short", short), ("lstm", MODELS["lstm"])):
        size = len(tokenizers.source)
        save_model(folder / name, build_model(settings, size, size), settings, tokenizers)
    (folder / "empty").mkdir()
    return folder


@pytest.fixture
def inspect(command_line, runs, tmp_path):
    def run(name, *options):
        return command_line("inspect", runs / name, *options)

    return run


@pytest.mark.parametrize(
    ("run", "sentence", "options", "message"),
    [
        ("short", "", [], "The sentence is blank: the model computes nothing for it. Give one with words."),
        ("lstm", " ", [], "The sentence is blank"),
        ("short", SENTENCE * 3, [], "this model has learned positions for 8"),
        ("empty", SENTENCE, [], "holds no model. Train one with: dragoman train"),
        ("missing", SENTENCE, [], "There is no folder"),
        ("short", SENTENCE, ["--show", "depth"], "--show is 'depth'; it has to be one of beam, encoder"),
        ("lstm", SENTENCE, ["--show", "masks"], "This model is an LSTM, which has no self-attention"),
        ("lstm", SENTENCE, ["--show", "positions"], "which has no position table: the order of tokens"),
        ("lstm", SENTENCE, ["--show", "lens"], "which has no residual stream"),
        (
            "lstm",
            SENTENCE,
            ["--show", "heads"],
            "This view is of a Transformer's attention, and this",
        ),
        ("lstm", SENTENCE, ["--show", "cross", "--layer", "2"], "There is no layer 2; this model has 1"),
    ],
)
def test_what_cannot_be_shown_gets_a_sentence(inspect, tmp_path, run, sentence, options, message):
    out = tmp_path / ("x.svg" if options else "x.html")
    status, _, err = inspect(run, sentence, *options, "--max-extra-tokens", 1, "--out", out)
    text = " ".join(err.split())
    assert (status, out.exists()) == (2, False), text
    assert message in text
    assert "Traceback" not in text


def test_an_lstm_is_shown(inspect, tmp_path):
    for name in ("x.html", "x.json", "x.svg"):
        options = ["--show", "model"] if name == "x.svg" else []
        out = tmp_path / name
        status, _, err = inspect("lstm", SENTENCE, *options, "--max-extra-tokens", 1, "--out", out)
        assert (status, out.exists()) == (0, True), err


@pytest.mark.parametrize("verb", ["inspect", "figure"])
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("none/x.svg", "none/x.svg cannot be written: there is no such folder."),
        ("folder.svg", "folder.svg is a folder; give the name of a file."),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_model_is_read(
    command_line, tmp_path, verb, out, message
):
    (tmp_path / "folder.svg").mkdir()
    view = ["no-run", SENTENCE, "--show", "beam"] if verb == "inspect" else ["figure-1", "no-run", SENTENCE]
    status, _, err = command_line(verb, *view, "--out", tmp_path / out)
    assert (status, message in " ".join(err.split())) == (2, True), err


def test_a_file_of_sentences_is_not_replaced_by_what_is_found_in_it(inspect, tmp_path):
    file = tmp_path / "sentences.json"
    file.write_text(SENTENCE)
    options = ["--file", file, "--show", "neurons", "--out", file]
    status, _, err = inspect("short", *options)
    assert (status, file.read_text()) == (2, SENTENCE)
    assert "is what this command reads; give another file." in " ".join(err.split())


def test_heads_of_a_model_that_has_none_are_refused_before_a_line_is_translated(runs, monkeypatch):
    translator = Translator.load(runs / "lstm")
    monkeypatch.setattr(translator, "n_best", lambda *_: pytest.fail("a line is translated"))
    with pytest.raises(DragomanError, match="has no self-attention"):
        mean_head_effects(translator, [SENTENCE], SearchSettings())
