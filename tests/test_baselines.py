"""`dragoman reproduce baselines`: equal parameters, equal trials, a choice by validation data alone."""

import json
import math
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.evaluation.metrics import bleu
from dragoman.model.costs import count_parameters
from dragoman.model.settings import ModelSettings
from dragoman.pipeline.complete import complete_recipe
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.system.toml import read_toml, to_table
from dragoman.text.settings import DataSettings
from dragoman.training.schedule import learning_rate
from dragoman_paper.cli.reproduce import make_page
from dragoman_paper.tables.baselines import BASELINES, TRIAL_SHARE, TRIALS
from dragoman_paper.tables.baselines_page import (
    SHARE,
    TEXTS,
    BaselineLine,
    models,
    page_lines,
    quality,
    quantity,
    shown,
    speed,
    threshold,
    trials_table,
    write_baselines,
    written_lines,
)
from dragoman_paper.tables.measures import minutes_to
from dragoman_paper.tables.report import bootstrap_p_value
from dragoman_paper.tables.rows import Row, Scale, Table
from dragoman_paper.tables.runner import Request
from dragoman_paper.tables.tuning import choose, final_recipe, run_baselines, trial_cells
from tests.conftest import write_copies

TOML = Path(__file__).parents[1] / "experiments" / "baselines"
ROWS = (
    Row("transformer", ModelSettings(d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1)),
    Row("gru", ModelSettings("gru", d_model=16, encoder_layers=1, decoder_layers=1)),
)
FILES = DataSettings(
    *(Path(f"{name}.{side}") for name in ("train", "valid", "test") for side in ("source", "target"))
)
TOY = Scale(
    "toy",
    FILES,
    "words and their capitals",
    vocabulary=320,
    tokens=100,
    updates=12,
    warmup_steps=4,
    precision="float32",
)
TABLE = Table("baselines", "A toy", ROWS, (TOY,))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for seed, (name, lines) in enumerate((("train", 200), ("valid", 10), ("test", 8))):
        write_copies(folder, name, lines, seed)
    return folder


def asked(texts, out, **changes):
    return replace(Request(TABLE, TOY, ROWS[:1], 1, out, texts), **changes)


@pytest.fixture(scope="module")
def straight(texts, tmp_path_factory):
    """One row's trials and its training; read only."""
    request = asked(texts, tmp_path_factory.mktemp("straight"))
    tuned = run_baselines(request)
    write_baselines(request, tuned)
    return request, tuned


# ---- equal conditions


@pytest.mark.parametrize("scale", BASELINES.scales, ids=lambda scale: scale.name)
@pytest.mark.parametrize("row", BASELINES.rows, ids=lambda row: row.name)
def test_parameters_are_those_of_the_first_row_within_5_percent(row, scale):
    counts = [
        count_parameters(scale.model(each.model), scale.vocabulary, scale.vocabulary)
        for each in (row, BASELINES.rows[0])
    ]
    assert abs(counts[0] / counts[1] - 1) <= 0.05


@pytest.mark.parametrize("scale", BASELINES.scales, ids=lambda scale: scale.name)
def test_every_row_has_the_same_trials_over_the_same_settings(scale, tmp_path):
    request = Request(BASELINES, scale, BASELINES.rows, 3, tmp_path)
    cells, count = trial_cells(request, scale.data), len(TRIALS)
    assert len(cells) == count * len(BASELINES.rows)
    assert len({cell.folder for cell in cells}) == len(cells)
    for place, row in enumerate(BASELINES.rows):
        recipes = [cell.recipe for cell in cells[place * count : (place + 1) * count]]
        assert [(round(peak(recipe), 6), recipe.model.dropout) for recipe in recipes] == [
            (trial.peak, trial.dropout) for trial in TRIALS
        ]
        same = {str(untuned(recipe)) for recipe in recipes}
        assert len(same) == 1, "a row's trials differ in what is tuned alone"
        assert replace(recipes[0].model, dropout=row.model.dropout) == row.model
    texts = {str(replace(untuned(cell.recipe), model=ModelSettings())) for cell in cells}
    assert len(texts) == 1, "rows differ in the model alone"


def peak(recipe):
    training = recipe.training
    warmup = training.warmup_steps
    return training.learning_rate_scale * learning_rate(warmup, recipe.model.d_model, warmup)


def untuned(recipe):
    return replace(
        recipe,
        out=None,
        model=replace(recipe.model, dropout=0.0),
        training=replace(recipe.training, learning_rate_scale=1.0),
    )


@pytest.mark.parametrize("scale", BASELINES.scales, ids=lambda scale: scale.name)
def test_a_trial_is_a_training_with_a_share_of_its_updates_and_of_its_warm_up(scale, tmp_path):
    request = Request(BASELINES, scale, BASELINES.rows, 1, tmp_path)
    for cell in trial_cells(request, scale.data):
        trial, whole = cell.recipe.training, scale.recipe(BASELINES.rows[0], 1, scale.data).training
        assert trial.updates == whole.updates // TRIAL_SHARE
        assert trial.warmup_steps == whole.warmup_steps // TRIAL_SHARE


def test_trials_have_no_test_data_and_trainings_have(tmp_path):
    scale = BASELINES.scale("multi30k")
    request = Request(BASELINES, scale, BASELINES.rows, 1, tmp_path)
    for cell in trial_cells(request, scale.data):
        assert cell.recipe.data.files.keys() == {"source", "target", "valid_source", "valid_target"}
    final = final_recipe(scale, BASELINES.rows[0], 1, scale.data, TRIALS[0])
    assert final.data == scale.data
    assert "test_source" in final.data.files


@pytest.mark.long
def test_the_lowest_validation_loss_is_chosen(straight):
    _, tuned = straight
    for lowest in range(len(TRIALS)):
        losses = [1.0 + (place != lowest) for place in range(len(TRIALS))]
        results = [replace(each, nll=loss) for each, loss in zip(tuned.trials, losses, strict=True)]
        worse = [replace(each, nll=each.nll + 1) for each in reversed(results)]
        chosen = choose(ROWS, [*results, *worse])
        assert chosen == {"transformer": TRIALS[lowest], "gru": TRIALS[len(TRIALS) - 1 - lowest]}


@pytest.mark.parametrize("row", BASELINES.rows, ids=lambda row: row.name)
def test_a_rows_file_is_its_recipe(row):
    recipe = complete_recipe(read_toml(TOML / f"{row.name}.toml"), "toml", lambda each: each, bool)
    ours = final_recipe(BASELINES.scale("multi30k"), row, 1, recipe.data, TRIALS[0])
    assert to_table(replace(recipe, preset="base", out=None)) == to_table(ours)


# ---- a toy that is run


@pytest.mark.long
def test_complete_cells_are_not_trained_again(straight):
    request, tuned = straight
    files = [*request.folder.rglob("result.json"), *request.folder.rglob("measures.json")]
    assert len(files) == 2 * (len(TRIALS) + 1) + 1
    times, said = [path.stat().st_mtime_ns for path in files], []
    with messages_to(said.append):
        assert run_baselines(request) == tuned
    assert [path.stat().st_mtime_ns for path in files] == times
    count = len(TRIALS)
    assert said[0] == f"A toy: trials, at the scale toy: {count} of {count} cells are complete."
    assert said[-1] == "A toy, at the scale toy: 1 of 1 cells are complete."


@pytest.mark.long
def test_an_interrupted_table_resumes(straight, tmp_path, texts):
    request = asked(texts, tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    shutil.rmtree(request.folder / "transformer")
    shutil.rmtree(request.folder / "trials" / "transformer" / TRIALS[-1].name)

    def interrupt(sentence):
        if f"{len(TRIALS)} of {len(TRIALS)}" in sentence and not sentence.startswith("Stopped"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), messages_to(interrupt):
        run_baselines(request)
    last = request.folder / "trials" / "transformer" / TRIALS[-1].name / "seed-1" / "result.json"
    time = last.stat().st_mtime_ns
    tuned = run_baselines(request)
    assert last.stat().st_mtime_ns == time
    assert [result.nll for result in tuned.trials] == [result.nll for result in straight[1].trials]
    assert tuned.chosen == straight[1].chosen
    assert [result.nll for result in tuned.results] == [result.nll for result in straight[1].results]


def test_a_cell_is_measured_as_soon_as_it_is_scored(straight, tmp_path, texts):
    request = asked(texts, tmp_path, seeds=2)
    shutil.copytree(straight[0].folder, request.folder)
    first, second = (request.folder / "transformer" / f"seed-{seed}" / "measures.json" for seed in (1, 2))
    first.unlink()  # an earlier version measured at the end

    def interrupt(sentence):
        if sentence.startswith("transformer, seed 2: ") and "tokens per second" in sentence:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), messages_to(interrupt):
        run_baselines(request)
    assert not first.exists()
    written = second.read_bytes()
    tuned = run_baselines(request)
    assert first.exists()
    assert second.read_bytes() == written
    assert [(each.row, each.seed) for each in tuned.measures] == [("transformer", 1), ("transformer", 2)]


def test_trials_did_not_see_the_test_data(straight):
    request, _ = straight
    runs = list((request.folder / "trials").rglob("run"))
    assert len(runs) == len(TRIALS)
    for run in runs:
        assert not list(run.rglob("test*"))
    assert (request.folder / "transformer" / "seed-1" / "run" / "test.hypotheses.txt").exists()


def test_measures_are_of_the_run(straight):
    request, tuned = straight
    (measures,), run = tuned.measures, request.folder / "transformer" / "seed-1" / "run"
    test = json.loads((run / "result.json").read_text())["test"]
    assert [measures.test_bleu, measures.test_chrf] == [score["value"] for score in test]
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    validations = [event for event in events if event["event"] == "validation"]
    assert [value for _, value in measures.curve] == [event["bleu"] for event in validations]
    seconds = sum(event["seconds"] for event in events if event["event"] == "train")
    assert measures.curve[-1][0] == pytest.approx(seconds / 60)
    assert min(measures.tokens_per_second, measures.sentences_per_second) > 0


def test_the_page_has_scores_speeds_trials_and_what_was_not_run(straight):
    request, tuned = straight
    page = (request.folder / "table.md").read_text()
    content = json.loads((request.folder / "table.json").read_text())
    assert "Rows that were not run: gru." in page
    assert content["not_run"] == ["gru"]
    for words in ("## Speed", "## Trials", "27.34", "31.00", "cannot be compared", "12 updates"):
        assert words in page
    for trial, result in zip(TRIALS, tuned.trials, strict=True):
        bold = "**" * (trial == tuned.chosen["transformer"])
        assert f"{bold}{result.nll:.3f}{bold}" in page
    lines = written_lines(content)
    assert lines == page_lines(request, tuned)
    for made in (quality(lines), speed(lines, content["score"]), trials_table(lines, content["trials"])):
        assert made in page
    (row,) = content["rows"]
    folder = request.folder / "transformer" / "seed-1"
    for name, files in TEXTS.items():
        texts = [(folder / file).read_text().splitlines() for file in files]
        assert row["quantities"][name]["values"] == [bleu(*texts).value]
    assert row["quantities"]["perplexity"]["values"] == [tuned.results[0].perplexity]
    assert len(content["passports"]) == len(TRIALS) + 1


def test_the_command_writes_the_page(straight, tmp_path):
    request = replace(straight[0], out=tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    (request.folder / "table.md").unlink()
    assert make_page(request) == (request.folder / "table.md").read_text()


@pytest.mark.long
def test_rows_are_compared_with_the_first_one(texts, straight, tmp_path):
    request = asked(texts, tmp_path, rows=ROWS, seeds=2)
    shutil.copytree(straight[0].folder, request.folder)
    said = []
    with messages_to(said.append):
        page = write_baselines(request, run_baselines(request))
    assert f"{len(TRIALS)} of {2 * len(TRIALS)} cells are complete" in said[0]
    content = json.loads((request.folder / "table.json").read_text())
    first, other = content["rows"]
    assert not first["p_values"]
    assert all(0 < value <= 1 for value in other["p_values"].values())
    assert all(len(each["values"]) == 2 for each in other["quantities"].values())
    assert "not run" not in page
    assert "| gru | architecture gru |" in page


def test_training_is_timed_to_a_share_of_the_first_rows_last_bleu(straight):
    request, tuned = straight
    (measures,) = tuned.measures
    curves = [[(1.0, 30.0), (2.0, 8.0)], [(1.0, 4.0), (2.0, 50.0), (3.0, 12.0)], [(1.0, 16.0)]]
    seeds = [replace(measures, curve=curve) for curve in curves]
    other = replace(measures, row="gru", curve=[(1.0, 90.0)])
    assert threshold(request, replace(tuned, measures=[*seeds, other])) == pytest.approx(SHARE * 12)


SCORES = st.floats(0.01, 99, allow_nan=False)


@given(
    st.integers(1, 4).flatmap(
        lambda seeds: st.lists(st.lists(SCORES, min_size=seeds, max_size=seeds), min_size=4, max_size=4)
    ),
    st.integers(1, 1001),
    st.integers(1, 10**9),
    st.integers(1, 10**9),
)
def test_a_row_is_compared_with_the_first_one_seed_by_seed(values, samples, parameters, base_parameters):
    p_value, names = samples / 1001, ("bleu", "test_bleu")
    others = ("perplexity", "chrf", "test_chrf")

    def line(row, bleu, test_bleu, parameters, p_values):
        scores = dict(zip(names, (bleu, test_bleu), strict=True)) | dict.fromkeys(others, bleu)
        quantities = {name: quantity(score) for name, score in scores.items()}
        return BaselineLine(row, "", parameters, 0.002, 0.1, quantities, p_values)

    base = line("transformer", *values[:2], base_parameters, {})
    other = line("gru", *values[2:], parameters, dict.fromkeys(names, p_value))
    text = quality([base, other])
    rows = {row.split(" | ")[0].strip("| "): row.strip("|").split("|") for row in text.splitlines()}
    head, first, second = (
        [cell.strip() for cell in row] for row in (rows["model"], rows["Transformer"], rows["GRU"])
    )
    places = [place for place, name in enumerate(head) if name.startswith("difference from")]
    for place, ours, theirs in zip(places, values[2:], values[:2], strict=True):
        assert first[place : place + 2] == ["", ""]
        differences = [one - another for one, another in zip(ours, theirs, strict=True)]
        spread = f" ± {stdev(differences):.2f}" if len(ours) > 1 else ""
        assert second[place] == f"{fmean(differences):+.2f}{spread}"
        assert second[place + 1] == (f"{p_value:.3f}" if samples > 1 else "< 0.001")
    share = re.search(r"\| GRU .* \(([+-][\d,.]+) %\) \|", models([base, other]))[1]
    assert float(share.replace(",", "")) == pytest.approx(100 * parameters / base_parameters - 100, abs=0.051)


@given(st.lists(st.none() | SCORES, min_size=1, max_size=5))
def test_a_score_that_some_seeds_did_not_reach_has_no_mean(values):
    found, reached = quantity(values), [value for value in values if value is not None]
    assert found.values == values
    if len(reached) == len(values):
        assert found.mean == pytest.approx(fmean(values))
        assert found.spread == (pytest.approx(stdev(values)) if len(values) > 1 else None)
    else:
        assert (found.mean, found.spread) == (None, None)
        words = f"{len(reached)} of {len(values)} seeds reach it" if reached else "not reached"
        assert shown(found) == words


def test_minutes_to_a_score_are_on_the_lines_between_validations():
    curve = [(1.0, 10.0), (2.0, 8.0), (4.0, 20.0)]
    assert minutes_to(5.0, curve) == 0.5
    assert minutes_to(10.0, curve) == 1.0
    assert minutes_to(14.0, curve) == 3.0
    assert minutes_to(20.5, curve) is None
    assert minutes_to(0.0, [(1.0, 0.0)]) == 1.0
    times = [minutes_to(score / 2, curve) for score in range(1, 41)]
    assert all(math.isfinite(time) for time in times)
    assert times == sorted(times)


# ---- wrong input


@pytest.mark.parametrize("file", TEXTS["bleu"])
def test_a_cell_without_its_texts_is_named(straight, tmp_path, texts, file):
    request = asked(texts, tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    (request.folder / "transformer" / "seed-1" / file).unlink()
    with pytest.raises(DragomanError, match=f"seed-1 has a result, but not {file}, .* delete .*result.json"):
        bootstrap_p_value(request, ROWS[0], *TEXTS["bleu"])


def test_measures_that_are_damaged_are_named(straight, tmp_path, texts):
    request = asked(texts, tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    (request.folder / "transformer" / "seed-1" / "measures.json").write_text('{"row": 1}')
    with pytest.raises(DragomanError, match=r"measures\.json is not as `dragoman reproduce` writes it"):
        run_baselines(request)


def test_several_processes_are_refused(monkeypatch, tmp_path, texts):
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "2")
    with pytest.raises(DragomanError, match="measures the speed of a single process.*without torchrun"):
        run_baselines(asked(texts, tmp_path))
