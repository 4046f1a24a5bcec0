"""`dragoman inspect` writes what it is asked for, and nothing if that makes no sense."""

import json
import sys
from xml.etree import ElementTree

import pytest

from dragoman import Translator
from dragoman.inspection.analyse.methods import DEFAULT_METHODS, METHODS
from dragoman.translation.model_folder import save_model
from tests.conftest import call
from tests.test_translator import folder  # noqa: F401

SENTENCE = "ein Mann fährt Rad"
VIEWS = [
    "beam",
    "encoder",
    "decoder",
    "cross",
    "alignment",
    "numbers",
    "statistics",
    "neurons",
    "heads",
    "attribution",
    "masks",
    "positions",
    "distances",
    "stream",
    "lens",
    "model",
]


@pytest.fixture
def inspect(command_line, folder, tmp_path):  # noqa: F811
    def run(*options, sentence=SENTENCE):
        return command_line("inspect", folder, sentence, "--max-extra-tokens", 3, *options)

    return run


@pytest.mark.short_form(2)
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_a_picture(inspect, tmp_path, view):
    out = tmp_path / "picture.svg"
    status, _, err = inspect("--show", view, "--out", out)
    assert status == 0, err
    assert ElementTree.parse(out).getroot().tag.endswith("svg")


@pytest.mark.short_form(2)
@pytest.mark.parametrize("ending", ["png", "PNG", "svg", "SVG", "json", "Json", "html", "HTML"])
def test_what_is_written_is_of_the_kind_that_its_ending_says(inspect, tmp_path, ending):
    out, kind = tmp_path / f"x.{ending}", ending.lower()
    status, _, err = inspect(*(["--show", "cross"] if kind in ("png", "svg") else []), "--out", out)
    assert status == 0, err
    begin = {"png": b"\x89PNG", "svg": b"<svg", "json": b"{", "html": b"<!"}[kind]
    assert out.read_bytes().lstrip().lower().startswith(begin.lower())


@pytest.mark.parametrize("more", [[], ["--head", 2], ["--lines"]], ids=str)
def test_a_layer_and_a_head_are_a_picture(inspect, tmp_path, more):
    status, _, err = inspect("--show", "cross", "--layer", 1, *more, "--out", tmp_path / "head.svg")
    assert status == 0, err
    assert "layer 1" in (tmp_path / "head.svg").read_text()


@pytest.mark.long
def test_words_windows_and_numbers_are_options(inspect, tmp_path):
    def svg(*options):
        status, _, err = inspect(*options, "--out", tmp_path / "x.svg")
        assert status == 0, err
        return (tmp_path / "x.svg").read_text()

    assert "this target word" in svg("--show", "cross", "--layer", 1, "--words")
    assert "Only source tokens 2 to 3 of" in svg("--show", "encoder", "--layer", 1, "--window", 2, 3)
    numbers = svg("--show", "numbers", "--kind", "encoder", "--layer", 1, "--head", 2, "--query", 3)
    assert "Encoder self-attention, layer 1, head 2: one query in numbers" in numbers
    assert "q of query 3" in numbers
    neuron = svg("--show", "neurons", "--layer", 1, "--neuron", 2, "--kind", "decoder", "--window", 2, 3)
    assert "Neuron 2 of layer 1" in neuron
    occlusion = svg("--show", "attribution", "--method", "occlusion", "--target-tokens")
    assert "What each token contributes to each target token: occlusion" in occlusion
    assert "earlier target token: token that the decoder reads, START first" in occlusion
    contrast = svg("--show", "attribution", "--method", "gradient-input", "--layer", 1, "--contrast")
    assert "What makes each target token likelier than another: gradient × input at the output of" in contrast
    assert "The gradient of this difference times the output of the layer" in contrast
    zeroing = svg("--show", "value-zeroing", "--kind", "encoder", "--layer", 1)
    assert "Encoder self-attention, layer 1: value zeroing" in zeroing
    assert "Decoder self-attention: statistics of" in svg("--show", "statistics", "--kind", "decoder")


def test_a_sentence_that_is_longer_than_those_of_training_is_told(
    monkeypatch,
    capsysbinary,
    folder,  # noqa: F811
    tmp_path,
):
    translator = Translator.load(folder, native=False)
    model = translator.torch_backend.model
    save_model(tmp_path / "model", model, model.settings, translator.tokenizers, longest_trained=4)
    out = tmp_path / "x.html"
    status, _, err = call(monkeypatch, capsysbinary, "inspect", tmp_path / "model", SENTENCE, "--out", out)
    assert (status, out.exists()) == (0, True)
    assert (
        "1 sentence has more tokens than the longest source of training (4), and is inspected whole; "
        "translate splits it." in err
    )


def test_a_picture_can_be_png(inspect, tmp_path):
    out = tmp_path / "beam.png"
    assert inspect("--show", "beam", "--out", out)[0] == 0
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_all_views_are_one_file(inspect, tmp_path):
    assert inspect("--out", tmp_path / "report.html")[0] == 0
    assert "Content-Security-Policy" in (tmp_path / "report.html").read_text()
    assert inspect("--out", tmp_path / "data.json")[0] == 0
    data = json.loads((tmp_path / "data.json").read_text())
    assert (data["version"], data["sentence"], data["attribution"]) == (2, SENTENCE, None)
    assert inspect("--show", "attribution", "--out", tmp_path / "data.json")[0] == 0
    table = json.loads((tmp_path / "data.json").read_text())["attribution"]
    assert (table["tokens"], table["other"]) == (data["source"]["tokens"], [])
    assert set(DEFAULT_METHODS) == set(METHODS).intersection(table)
    further = ("--show", "attribution", "--method", "deeplift", "--layer", 1)
    assert inspect(*further, "--out", tmp_path / "data.json")[0] == 0
    table = json.loads((tmp_path / "data.json").read_text())["attribution"]
    assert {*DEFAULT_METHODS, "deeplift"} == set(METHODS).intersection(table)
    assert table["layer"] == 1
    assert inspect("--show", "attribution", "--contrast", "--out", tmp_path / "data.json")[0] == 0
    data = json.loads((tmp_path / "data.json").read_text())
    pairs = zip(data["attribution"]["other"], data["target"]["tokens"], strict=True)
    assert all(other != token for other, token in pairs)
    assert inspect("--show", "value-zeroing", "--out", tmp_path / "data.json")[0] == 0
    table = json.loads((tmp_path / "data.json").read_text())["value_zeroing"]
    assert table["cross"]["shape"][1:] == [len(data["target"]["tokens"]), len(data["source"]["tokens"])]
    assert inspect("--show", "value-zeroing", "--out", tmp_path / "report.html")[0] == 0
    assert json.dumps(table["cross"]["float16"]) in (tmp_path / "report.html").read_text()


@pytest.mark.short_form(17)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.pdf"], "--out is x.pdf; its name has to end with .html, .json, .svg or .png."),
        (["--out", "x.svg"], "A picture shows one view: give --show beam, encoder"),
        (["--out", "x.html", "--show", "beam"], "--show is for pictures, and x.html holds the other views"),
        (["--out", "x.svg", "--show", "beam", "--layer", "1"], "--layer and --head are for --show"),
        (
            ["--out", "x.json", "--layer", "1"],
            "--layer and --head are for --show encoder, decoder, cross or numbers and for .html, and --layer "
            "is also for --show neurons, attribution and pictures of value-zeroing.",
        ),
        (
            ["--out", "x.svg", "--show", "numbers", "--lines"],
            "--lines is for --show encoder, decoder or cross",
        ),
        (
            ["--out", "x.svg", "--show", "cross", "--lines"],
            "--lines needs --layer; give both, or leave --lines out.",
        ),
        (
            ["--out", "x.svg", "--show", "lens", "--words"],
            "--words is for --show encoder, decoder or cross, and not lens;",
        ),
        (
            ["--out", "x.svg", "--show", "neurons", "--neuron", "1"],
            "--neuron needs --layer; give both, or leave --neuron out.",
        ),
        (
            ["--out", "x.html", "--layer", "1", "--neuron", "1"],
            "--neuron is for --show neurons; give that, or",
        ),
        (
            ["--out", "x.svg", "--show", "neurons", "--head", "1"],
            "--layer and --head are for --show encoder,",
        ),
        (["--out", "x.svg", "--show", "neurons", "--layer", "9"], "There is no layer 9; the encoder has"),
        (
            ["--out", "x.svg", "--show", "beam", "--method", "occlusion"],
            "--method is for --show attribution, and not beam; give that, or leave --method out.",
        ),
        (["--out", "x.html", "--target-tokens"], "--target-tokens is for --show attribution; give that"),
        (["--out", "x.html", "--contrast"], "--contrast is for --show attribution; give that, or"),
        (
            ["--out", "x.svg", "--show", "attribution", "--method", "lime", "--head", "1"],
            "--layer and --head are for --show",
        ),
        (
            ["--out", "x.svg", "--show", "attribution", "--method", "reagent", "--layer", "1"],
            "The method reagent replaces tokens by others",
        ),
        (
            ["--out", "x.svg", "--show", "attribution", "--method", "gradient-input", "--layer", "9"],
            "There is no encoder layer 9; there are",
        ),
        (["--out", "x.html", "--query", "1"], "--query is for --show numbers; give that, or"),
        (
            ["--out", "x.svg", "--show", "cross", "--kind", "cross"],
            "--kind is for --show numbers, statistics, neurons, and pictures of value-zeroing.",
        ),
        (
            ["--out", "x.json", "--show", "value-zeroing", "--kind", "cross"],
            "--kind is for --show numbers, statistics, neurons, and pictures of value-zeroing.",
        ),
        (["--out", "x.json", "--show", "value-zeroing", "--layer", "1"], "--layer and --head are for --show"),
        (["--out", "x.svg", "--show", "value-zeroing", "--layer", "9"], "There is no layer 9; the decoder"),
        (
            ["--out", "x.html", "--show", "value-zeroing", "--kind", "cross"],
            "--kind is for --show numbers, statistics, neurons, and pictures of value-zeroing.",
        ),
        (
            ["--out", "x.svg", "--show", "cross", "--what-if", "positions=off"],
            "A picture of --what-if shows the trees of one case: give --show beam and one case, or",
        ),
        (
            ["--out", "x.svg", "--show", "beam", "--what-if", "positions=off", "beam_size=1"],
            "A picture of --what-if shows the trees of one case",
        ),
        (
            ["--out", "x.svg", "--show", "statistics", "--window", "1", "2"],
            "--window is for --show beam, encoder, decoder,",
        ),
        (
            ["--out", "x.svg", "--show", "model", "--window", "1", "2"],
            "--window is for --show beam, encoder, decoder,",
        ),
        (
            ["--out", "x.svg", "--show", "lens", "--window", "1"],
            "--window has two numbers, the first and the",
        ),
        (["--out", "x.svg", "--show", "beam", "--window", "98", "99"], "The window begins at token 98, and"),
        (["--out", "x.svg", "--show", "lens", "--window", "2", "1"], "The window is from 2 to 1; give the"),
        (["--out", "x.svg", "--show", "numbers", "--query", "99"], "There is no query 99; there are"),
        (["--out", "x.svg", "--show", "numbers", "--query", "0"], "There is no query 0; there are"),
        (["--out", "x.html", "--head", "9"], "There is no head 9; this model has"),
        (["--out", "x.svg", "--show", "cross", "--layer", "9"], "There is no layer 9; this model has 1"),
        (["--out", "x.svg", "--show", "depth"], "--show is 'depth'; it has to be one of beam, encoder"),
        *(
            (
                ["--out", "x.json", "--show", view, "--truncate", "2"],
                f"--show {view} is of the whole sentence, and with --truncate 2 the search reads only a part",
            )
            for view in ("heads", "attribution", "value-zeroing")
        ),
        (
            ["--out", "x.json", "--keep-tags"],
            "An inspection needs a single search, which --keep-tags excludes",
        ),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(inspect, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    status, _, err = inspect(*options)
    assert (status, list(tmp_path.glob("x.*"))) == (2, [])
    assert message in " ".join(err.split())


def test_a_layer_that_is_not_there_is_refused_before_an_attribution(inspect, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "dragoman.inspection.analyse.attribution.attribute", lambda *_, **__: pytest.fail("it is computed")
    )
    status, _, err = inspect("--show", "attribution", "--layer", "9", "--out", tmp_path / "x.html")
    assert (status, "There is no layer 9; this model has 1" in err) == (2, True), err


def test_a_blank_sentence_gets_a_sentence(inspect, tmp_path):
    status, _, err = inspect("--out", tmp_path / "x.html", sentence=" ")
    assert status == 2
    assert "The sentence is blank" in err


def test_png_without_its_package_gets_a_sentence(inspect, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    status, _, err = inspect("--show", "beam", "--out", tmp_path / "x.png")
    assert (status, (tmp_path / "x.png").exists()) == (2, False)
    assert "PNG needs vl-convert: pip install 'dragoman[plot]', or write .svg." in err
