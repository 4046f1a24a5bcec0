"""`dragoman inspect` writes what it is asked for, and nothing if that makes no sense."""

import json
import sys
from xml.etree import ElementTree

import pytest

from tests.test_exchange import call
from tests.test_translator import folder  # noqa: F401

SENTENCE = "ein Mann fährt Rad"
VIEWS = [
    "beam",
    "encoder",
    "decoder",
    "cross",
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
def inspect(monkeypatch, capsysbinary, folder, tmp_path):  # noqa: F811
    def run(*options, sentence=SENTENCE):
        return call(monkeypatch, capsysbinary, "inspect", folder, sentence, "--max-extra-tokens", 3, *options)

    return run


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_a_picture(inspect, tmp_path, view):
    out = tmp_path / "picture.svg"
    status, _, err = inspect("--show", view, "--out", out)
    assert status == 0, err
    assert ElementTree.parse(out).getroot().tag.endswith("svg")


@pytest.mark.parametrize("more", [[], ["--head", 2], ["--lines"]], ids=str)
def test_a_layer_and_a_head_are_a_picture(inspect, tmp_path, more):
    status, _, err = inspect("--show", "cross", "--layer", 1, *more, "--out", tmp_path / "head.svg")
    assert status == 0, err
    assert "layer 1" in (tmp_path / "head.svg").read_text()


def test_a_picture_can_be_png(inspect, tmp_path):
    out = tmp_path / "beam.png"
    assert inspect("--show", "beam", "--out", out)[0] == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_all_views_are_one_file(inspect, tmp_path):
    assert inspect("--out", tmp_path / "report.html")[0] == 0
    assert "Content-Security-Policy" in (tmp_path / "report.html").read_text()
    assert inspect("--out", tmp_path / "data.json")[0] == 0
    data = json.loads((tmp_path / "data.json").read_text())
    assert (data["version"], data["sentence"]) == (1, SENTENCE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "x.pdf"], "--out is x.pdf; its name has to end with .html, .json, .svg or .png."),
        (["--out", "x.svg"], "A picture shows one view: give --show beam, encoder"),
        (["--out", "x.html", "--show", "beam"], "--show is for pictures, and x.html holds all views"),
        (["--out", "x.svg", "--show", "beam", "--layer", "1"], "--layer, --head and --lines are for --show"),
        (["--out", "x.svg", "--show", "cross", "--lines"], "--head and --lines need a --layer."),
        (["--out", "x.svg", "--show", "cross", "--layer", "9"], "There is no layer 9; this model has 1"),
        (["--out", "x.svg", "--show", "depth"], "--show is 'depth'; it has to be one of beam, encoder"),
        (
            ["--out", "x.json", "--keep-tags"],
            "An inspection is of one search, and keep_tags asks for something else",
        ),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(inspect, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    status, _, err = inspect(*options)
    assert (status, list(tmp_path.glob("x.*"))) == (2, [])
    assert message in " ".join(err.split())


def test_a_blank_sentence_gets_a_sentence(inspect, tmp_path):
    status, _, err = inspect("--out", tmp_path / "x.html", sentence=" ")
    assert status == 2
    assert "The sentence is blank" in err


def test_png_without_its_package_gets_a_sentence(inspect, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    status, _, err = inspect("--show", "beam", "--out", tmp_path / "x.png")
    assert (status, (tmp_path / "x.png").exists()) == (2, False)
    assert "PNG needs vl-convert: pip install 'dragoman[plot]', or write .svg." in err
