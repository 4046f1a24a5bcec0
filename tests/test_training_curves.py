"""The training of a run as the report and `dragoman figure training` show it."""

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspection import report
from dragoman.inspection.views.drawing import Drawing
from dragoman.pipeline.runs import points
from dragoman.system.errors import DragomanError
from dragoman.training.curves import MAX_POINTS, MAX_SAMPLES, Curve, required_training, thinned, training_of
from dragoman_paper.figures import training_picture


def test_curves_are_the_numbers_of_the_log(trained):
    found = training_of(trained / "run")
    shown = [
        {"chart": curve.chart, "curve": curve.name, "step": step, "value": value}
        for curve in found.curves
        if curve.name != "schedule"
        for step, value in curve.points
    ]
    logged = points(trained / "run")
    key = str
    assert sorted(shown, key=key) == sorted(logged, key=key)


def test_the_learning_rate_is_that_of_equation_3(trained):
    rates, formula = (
        curve.points for curve in training_of(trained / "run").curves if curve.chart == "learning rate"
    )
    assert dict(rates) == pytest.approx(dict(formula), abs=1e-6)


def test_the_report_and_the_figure_begin_the_same_charts_at_zero():
    program = Path(report.__file__).parent / "page" / "training.js"
    (names,) = re.findall(r"FROM_ZERO = (\[.*\]);", program.read_text("utf-8"))
    assert json.loads(names) == list(training_picture.FROM_ZERO)


@given(
    st.sampled_from([*training_picture.UNITS]),
    st.lists(st.tuples(st.integers(1, 90), st.floats(0.5, 50)), min_size=1, max_size=6),
)
def test_a_line_of_a_chart_has_its_numbers_between_zero_or_the_least_and_the_greatest(chart, points):
    drawing = Drawing("a", "title", "description")
    training_picture.draw_chart(drawing, chart, [Curve(chart, "train", tuple(points))], 100, 50, 90)
    (line,) = (
        each
        for each in ElementTree.fromstring(drawing.svg()).iter()
        if "stroke-self" in each.get("class", "")
    )
    found = [[float(number) for number in pair.split()] for pair in line.get("d")[1:].split("L")]
    values = [value for _, value in points]
    low, high = 0 if chart in training_picture.FROM_ZERO else min(values), max(values)
    for (x, y), (step, value) in zip(found, points, strict=True):
        assert x == pytest.approx(100 + training_picture.WIDTH * step / 90, abs=0.01)
        share = (value - low) / (high - low or 1)
        assert y == pytest.approx(50 + training_picture.HEIGHT * (1 - share), abs=0.01)


def test_samples_are_those_of_the_validations(trained):
    found = training_of(trained / "run")
    log = [json.loads(line) for line in (trained / "run" / "log.jsonl").read_text().splitlines()]
    logged = [(event["step"], sample) for event in log for sample in event.get("samples", [])]
    assert [(each.step, each.translation) for each in found.samples] == [
        (step, sample["translation"]) for step, sample in logged
    ]


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 7_919])
def test_thinning_keeps_the_first_the_last_and_the_order(count):
    every = list(range(count))
    kept = thinned(every)
    assert len(kept) == min(count, MAX_POINTS)
    assert list(kept) == sorted(set(kept))
    assert kept[:1] == tuple(every[:1])
    assert kept[-1:] == tuple(every[-1:])


def test_a_model_folder_has_no_training_and_an_empty_log_gets_a_sentence(trained, tmp_path):
    assert training_of(trained / "run" / "model") is None
    shutil.copy(trained / "run" / "recipe.toml", tmp_path / "recipe.toml")
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(
        DragomanError, match="has nothing to draw: no update has been logged yet, or it is damaged"
    ):
        required_training(tmp_path)


def test_a_recipe_without_its_schedule_gets_a_sentence(trained, tmp_path):
    shutil.copy(trained / "run" / "log.jsonl", tmp_path / "log.jsonl")
    for recipe, message in (
        ("[model]\n[training]\n", "has no warmup_steps; it is not as a run writes it."),
        ("[model]\n", r"has no table \[training\]; it is not as a run writes it."),
    ):
        (tmp_path / "recipe.toml").write_text(recipe)
        with pytest.raises(DragomanError, match=message):
            training_of(tmp_path)


TITLES = {
    "loss": "loss",
    "nll": "negative log-likelihood",
    "bleu": "BLEU",
    "replay_bleu": "BLEU of the old text",
    "learning_rate": "learning rate",
    "gradient_norm": "norm of the gradient",
    "tokens_per_second": "target tokens per second",
}


@pytest.mark.parametrize("last", ["train", "validation"])
def test_all_charts_have_all_updates_whichever_number_comes_last(trained, tmp_path, last):
    shutil.copy(trained / "run" / "recipe.toml", tmp_path / "recipe.toml")
    numbers = {name: place + 0.5 for place, name in enumerate(TITLES)}
    steps = {"train": (1, 2), "validation": (2,)}
    steps[last] += (7,)
    events = [{"event": kind, "step": step, **numbers} for kind in steps for step in steps[kind]]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    root = ElementTree.fromstring(training_picture.training_picture(tmp_path))
    paths = [each for each in root.iter() if each.tag.endswith("}path") and len(each)]
    ends = {}
    for path in paths:
        places = [float(pair.split()[0]) - 84 for pair in path.get("d")[1:].split("L")]
        assert all(0 <= place % training_picture.ACROSS <= training_picture.WIDTH for place in places)
        ends.setdefault(path[0].text, set()).add(round(places[-1] % training_picture.ACROSS))
    assert ends[last] == {training_picture.WIDTH}


def test_a_chart_shows_the_number_of_its_title(trained, tmp_path):
    """A first line at step 0, which no run writes, has no rate in the formula."""
    shutil.copy(trained / "run" / "recipe.toml", tmp_path / "recipe.toml")
    numbers = {name: place + 0.5 for place, name in enumerate(TITLES)}
    events = [{"event": kind, "step": step, **numbers} for step in (0, 1) for kind in ("train", "validation")]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    shown = {
        (curve.chart, curve.points) for curve in training_of(tmp_path).curves if curve.name != "schedule"
    }
    assert shown == {(TITLES[name], ((0, value), (1, value))) for name, value in numbers.items()}
    (formula,) = (curve for curve in training_of(tmp_path).curves if curve.name == "schedule")
    assert [step for step, _ in formula.points] == [1]


def test_a_long_log_has_so_many_points_and_samples_as_can_be_shown(trained, tmp_path):
    shutil.copy(trained / "run" / "recipe.toml", tmp_path / "recipe.toml")
    steps = range(1, 3 * MAX_POINTS)
    events = [
        {"event": "validation", "step": step, "loss": float(step), "samples": [{"source": f"{step}"}]}
        for step in steps
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    found = training_of(tmp_path)
    (curve,) = found.curves
    for rows, most in ((curve.points, MAX_POINTS), (found.samples, MAX_SAMPLES)):
        assert len(rows) == most
    kept = [step for step, _ in curve.points]
    assert [kept[0], kept[-1]] == [steps[0], steps[-1]]
    assert [found.samples[0].step, found.samples[-1].step] == [steps[0], steps[-1]]
    gaps = {later - earlier for earlier, later in pairwise(kept)}
    assert max(gaps) - min(gaps) <= 1


def test_numbers_that_are_not_finite_are_left_out(trained, tmp_path):
    shutil.copy(trained / "run" / "recipe.toml", tmp_path / "recipe.toml")
    lines = ['{"event": "train", "step": 1, "loss": NaN}', '{"event": "train", "step": 2, "loss": 3.5}']
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, ""]))
    (curve,) = training_of(tmp_path).curves
    assert curve.points == ((2, 3.5),)


def test_the_data_of_a_run_has_its_training(command_line, trained, tmp_path):
    for run, there in ((trained / "run", True), (trained / "run" / "model", False)):
        out = tmp_path / "data.json"
        assert command_line("inspect", run, "amber birch", "--out", out)[0] == 0
        assert (json.loads(out.read_text())["training"] is not None) == there


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("adaptation = 3\n", r"has no table \[adaptation\]; it is not as a run writes it"),
        (
            'adaptation.peak_rate = "x"\n',
            "adaptation.peak_rate is not a number; it is not as",
        ),
    ],
)
def test_a_recipe_that_no_run_writes_is_refused(trained, tmp_path, table, message):
    (tmp_path / "log.jsonl").write_bytes((trained / "run" / "log.jsonl").read_bytes())
    recipe = (trained / "run" / "recipe.toml").read_text("utf-8").split("[adaptation]")[0]
    (tmp_path / "recipe.toml").write_text(table + recipe, "utf-8")
    with pytest.raises(DragomanError, match=message):
        training_of(tmp_path)


def test_samples_that_no_run_writes_are_left_out(trained, tmp_path):
    (tmp_path / "recipe.toml").write_bytes((trained / "run" / "recipe.toml").read_bytes())
    events = [{"event": "validation", "step": 1, "samples": value} for value in (7, [7], None)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert training_of(tmp_path).samples == ()
