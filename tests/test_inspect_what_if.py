"""`dragoman inspect` with recorded cases, and the mean effects of heads over a file."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from dragoman import SearchSettings, Translator
from dragoman.inspection.analyse import mean_effects
from dragoman.inspection.analyse.ablation import head_effects
from dragoman.inspection.analyse.changes import parse_changes
from dragoman.inspection.analyse.mean_effects import MIN_LINES, MeanHeadEffects, interval
from dragoman.inspection.views.drawing import decimal
from dragoman.inspection.views.heads import mean_effects_picture
from dragoman.inspection.views.labels import in_window
from dragoman.inspection.views.what_if_picture import hypotheses, what_if_trees
from dragoman.inspection.what_if import WhatIf, inspect_changed
from tests.test_inspect import SENTENCE, inspect  # noqa: F401
from tests.test_pictures import fake
from tests.test_translator import folder  # noqa: F401

LINES = [SENTENCE, "", "two dogs play", "der Schnee ist kalt"]


@pytest.fixture
def heads(command_line, folder, tmp_path):  # noqa: F811
    file = tmp_path / "test.de"
    file.write_text("\n".join(LINES) + "\n")

    def run(*options):
        return command_line("inspect", folder, "--file", file, "--max-extra-tokens", 3, *options)

    return run


def test_intervals_hold_95_percent():
    """As wide as normal theory says: 1.96 standard errors on each side; wider for fewer lines."""
    draw = np.random.default_rng(0)
    for lines in (50, 400):
        effects = draw.normal(3.0, 2.0, (lines, 10, 20))
        found = interval(effects)
        error = effects.std(0) / lines**0.5
        assert np.mean((found.high - found.low) / (2 * error)) == pytest.approx(1.96, rel=0.03)
        assert np.mean((found.high + found.low) / 2 - found.mean) == pytest.approx(0, abs=0.02)
        assert np.mean((found.low <= 3.0) & (found.high >= 3.0)) == pytest.approx(0.95, abs=0.05)


@pytest.mark.long
def test_cases_are_recorded(inspect, tmp_path):  # noqa: F811
    out = tmp_path / "data.json"
    status, _, err = inspect("--what-if", "cross.1.1=off beam_size=1", "positions=off", "--out", out)
    assert status == 0, err
    data = json.loads(out.read_text())
    first, second = data["what_if"]
    assert (first["changes"], second["changes"]) == (["cross.1.1=off", "beam_size=1"], ["positions=off"])
    assert (first["search"]["beam_size"], second["search"]["beam_size"]) == (1, data["search"]["beam_size"])
    assert inspect("--beam-size", 1, "--out", out)[0] == 0
    assert json.loads(out.read_text())["what_if"] == []
    assert inspect("--what-if", "beam_size=1", "--out", out)[0] == 0
    (case,) = json.loads(out.read_text())["what_if"]
    greedy = tmp_path / "greedy.json"
    assert inspect("--beam-size", 1, "--out", greedy)[0] == 0
    plain = json.loads(greedy.read_text())
    assert {key: case[key] for key in case if key != "changes"} == {
        key: plain[key] for key in case if key != "changes"
    }


def test_the_data_has_the_effects_of_all_heads_if_they_are_asked_for(inspect, folder, tmp_path):  # noqa: F811
    out = tmp_path / "data.json"
    assert inspect("--out", out)[0] == 0
    assert json.loads(out.read_text())["head_effects"] is None
    status, _, err = inspect("--show", "heads", "--out", out)
    assert status == 0, err
    data = json.loads(out.read_text())
    effects = head_effects(Translator.load(folder, native=False), SENTENCE, data["target"]["tokens"])
    found = data["head_effects"]
    assert found["log_probability"] == pytest.approx(effects.log_probability)
    for kind in ("encoder", "decoder", "cross"):
        assert np.array(found[kind]) == pytest.approx(getattr(effects, kind), abs=6e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--what-if", "cross.9.1=off"], "cross.9.1=off: there is no layer 9; this model has 1"),
        (["--what-if", "cross.1.1=of"], "'cross.1.1=of' is not a change. Write encoder.1.2=off"),
        (
            ["--what-if", "positions=off positions=off"],
            "positions=off and positions=off change the same part",
        ),
        (
            ["--file", "x", "--show", "heads"],
            "Give a sentence after the run, or with --show heads or neurons a --file",
        ),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(inspect, tmp_path, options, message):  # noqa: F811
    status, _, err = inspect(*options, "--out", tmp_path / "x.html")
    assert (status, (tmp_path / "x.html").exists()) == (2, False)
    assert message in " ".join(err.split())


def test_a_file_gives_the_means_of_its_lines(heads, folder, tmp_path):  # noqa: F811
    out = tmp_path / "heads.json"
    status, _, err = heads("--show", "heads", "--out", out)
    assert status == 0, err
    found = json.loads(out.read_text())
    translator = Translator.load(folder, native=False)
    lines = [line for line in LINES if line]
    best = [row[0] for row in translator.n_best(lines, max_extra_tokens=3)]
    effects = [head_effects(translator, line, each.tokens) for line, each in zip(lines, best, strict=True)]
    assert found["lines"] == len(lines)
    mean = np.mean([each.log_probability for each in effects])
    assert found["log_probability"] == pytest.approx(mean, abs=1e-4)
    for use in ("encoder", "decoder", "cross"):
        expected = np.mean([getattr(each, use) for each in effects], 0)
        np.testing.assert_allclose(found[use]["mean"], expected, atol=1e-4)
        assert (np.array(found[use]["low"]) <= found[use]["mean"]).all()
        assert (np.array(found[use]["high"]) >= found[use]["mean"]).all()
    picture = tmp_path / "heads.svg"
    assert heads("--show", "heads", "--out", picture)[0] == 0
    texts = [each.text for each in ElementTree.parse(picture).getroot().iter() if each.tag.endswith("text")]
    assert all(decimal(mean, 3, "+") in texts for row in found["cross"]["mean"] for mean in row)


def test_a_packed_model_takes_interventions(folder):  # noqa: F811
    translator = Translator.load(folder, native=False)
    changes = parse_changes(["encoder.1=uniform", "cross.1.1=off"])
    found = inspect_changed(translator, SENTENCE, changes, SearchSettings(max_extra_tokens=3))
    np.testing.assert_allclose(found.attention.encoder[0], 1 / len(found.source), rtol=1e-5)
    without = head_effects(translator, SENTENCE, found.target)
    assert without.cross[0, 0] != 0


def test_an_interval_is_of_resampled_means():
    assert interval(np.full((5, 1, 2), 3.0, np.float32)).high == pytest.approx(3.0)
    effects = np.random.default_rng(0).normal(1, 2, (400, 1, 1)).astype(np.float32)
    found = interval(effects)
    half = 1.96 * effects.std() / 400**0.5
    assert found.high - found.mean == pytest.approx(half, rel=0.15)
    assert found.mean - found.low == pytest.approx(half, rel=0.15)
    assert interval(effects).low == found.low


def test_an_interrupt_leaves_nothing(heads, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(mean_effects, "pair_effects", interrupted)
    out = tmp_path / "out" / "heads.json"
    out.parent.mkdir()
    assert heads("--show", "heads", "--out", out)[0] == 130
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--out", "x.json"],
            "--file is for --show heads or neurons; give that, or leave --file out",
        ),
        (["--show", "heads", "--out", "x.html"], "with --file its name has to end with .json, .svg or .png"),
        (["--show", "heads", "--out", "x.svg", "--layer", 1], "--layer and --head are for --show"),
    ],
)
def test_what_does_not_fit_a_file_gets_a_sentence(heads, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    status, _, err = heads(*options)
    assert (status, list(tmp_path.glob("x.*"))) == (2, [])
    assert message in " ".join(err.split())


def test_a_file_of_blank_lines_gets_a_sentence(heads, tmp_path):
    (tmp_path / "test.de").write_text("\n \n")
    status, _, err = heads("--show", "heads", "--out", tmp_path / "x.json")
    assert (status, (tmp_path / "x.json").exists()) == (2, False)
    assert "All lines of the file are blank" in err


def test_a_case_is_a_picture_of_both_trees(inspect, folder, tmp_path):  # noqa: F811
    out = tmp_path / "trees.svg"
    status, _, err = inspect("--show", "beam", "--what-if", "cross.1.1=off target.1=▁two", "--out", out)
    assert status == 0, err
    translator, settings = Translator.load(folder, native=False), SearchSettings(max_extra_tokens=3)
    changes = parse_changes(["cross.1.1=off", "target.1=▁two"])
    searches = [inspect_changed(translator, SENTENCE, each, settings) for each in ([], changes)]
    before, after = (set(hypotheses(each.nodes)) for each in searches)
    assert before - after
    assert after - before
    root = ElementTree.parse(out).getroot()
    dots = [each for each in root.iter() if each.tag.endswith("rect") and each.get("rx") == "3.5"]
    assert len(dots) == len(before ^ after) + 1  # one in the key
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert {f"Before: {searches[0].translation}", f"After: {searches[1].translation}"} <= {*texts}
    boxes = [each for each in root.iter() if each.tag.endswith("rect") and each.get("rx") == "5"]
    assert len(boxes) == sum(len(each.nodes) for each in searches) + 4  # four in the key


@pytest.mark.parametrize("window", [None, (1, 2), (4, 6), (1, 100)])
@pytest.mark.parametrize("lengths", [(3, 5), (70, 2), (61, 60)])
def test_a_note_names_the_steps_of_a_tree_that_are_drawn_unless_all_are(lengths, window):
    before, after = (fake(target=tuple(f"t{place}" for place in range(length))) for length in lengths)
    svg = what_if_trees(WhatIf(tuple(parse_changes(["beam_size=1"])), before, after), window)
    texts = [each.text or "" for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]
    for name, length in zip(("Before", "After"), lengths, strict=True):
        drawn = in_window(length, window)
        note = f"{name}: only steps {drawn.start + 1} to {drawn.stop} of {length} are drawn."
        assert (note in " ".join(texts)) == (drawn.stop - drawn.start < length)


@pytest.mark.parametrize("translation", ["Ein Mann fährt Rad", "Ein Hund"])
def test_a_case_tells_the_numbers_of_both_searches_and_whether_the_translation_changes(translation):
    before = fake()
    after = replace(
        fake(target=("▁Ein", "▁Hund", "</s>")), translation=translation, log_probability=-2.25, score=-1.75
    )
    svg = what_if_trees(WhatIf(tuple(parse_changes(["beam_size=1"])), before, after))
    same = "stays the same" if translation == before.translation else "changes"
    root = ElementTree.fromstring(svg)
    assert root[0].text == f"What if: beam_size=1. The translation {same}"
    texts = [each.text for each in root.iter() if each.tag.endswith("text")]
    for name, each in (("Before", before), ("After", after)):
        numbers = texts[texts.index(f"{name}: {each.translation}") + 1]
        log_prob, score = decimal(each.log_probability, 3), decimal(each.score, 3)
        assert numbers.startswith(f"Log-probability {log_prob} nats, score {score}. Beam search: beam 4;")
        assert numbers.endswith(f"; {len(each.nodes) - 1} hypotheses in {len(each.target)} steps.")


@pytest.mark.parametrize("lines", [1, MIN_LINES - 1, MIN_LINES])
def test_means_are_bold_only_with_enough_lines(lines):
    each = interval(np.ones((lines, 1, 2)))
    picture = mean_effects_picture(MeanHeadEffects(lines, -1.0, each, each, each))
    enough = lines >= MIN_LINES
    assert ("A mean is bold if its interval does not contain 0" in picture) == enough
    assert ("With fewer than 10 lines intervals are too narrow" in picture) == (not enough)
    means = [line for line in picture.split("<text")[1:] if ">+1.000<" in line]
    assert len(means) == 6
    assert all(('font-weight="600"' in line) == enough for line in means)
