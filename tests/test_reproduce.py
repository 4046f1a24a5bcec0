"""`dragoman reproduce`: an interrupted table ends as one that was not; rows are the paper's; verdicts."""

import json
import math
import os
import shutil
import signal
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from dragoman.cli import main as cli
from dragoman.cli.train import run_training
from dragoman.evaluation.metrics import bleu
from dragoman.model.costs import count_parameters
from dragoman.model.settings import ModelSettings
from dragoman.pipeline.autoconfigure import duration
from dragoman.pipeline.passport import text_hashes
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.system.errors import DragomanError
from dragoman.system.files import file_hash
from dragoman.system.messages import messages_to
from dragoman.system.toml import overlay, read_toml
from dragoman.text.settings import DataSettings
from dragoman.training.schedule import learning_rate
from dragoman_paper.tables import report
from dragoman_paper.tables.cells import Result
from dragoman_paper.tables.page import details, quality, write_page, written_lines
from dragoman_paper.tables.report import measure, table_lines, verdict
from dragoman_paper.tables.rows import Row, Scale, Table, describe, differences
from dragoman_paper.tables.runner import Request, find_texts, progress, run_table
from dragoman_paper.tables.table3 import TABLE3
from dragoman_paper.tables.tables import TABLES
from tests.conftest import MAX_SECONDS, write_copies
from tests.processes import as_ranks, fork, worst

TOML = Path(__file__).parents[1] / "experiments" / "table3"
BASE = ModelSettings(d_model=32, d_ff=64, heads=4, encoder_layers=2, decoder_layers=2)
ROWS = (
    Row("base", BASE, perplexity=5.0, bleu=20.0, parameters=1),
    Row("A1", replace(BASE, heads=1), perplexity=6.0, bleu=19.0),
)
FILES = DataSettings(
    *(Path(f"{name}.{side}") for name in ("train", "valid") for side in ("source", "target"))
)
TOY = Scale(
    "toy",
    FILES,
    "words and their capitals",
    vocabulary=320,
    tokens=100,
    updates=40,
    warmup_steps=12,
    width=2,
    depth=2,
    precision="float32",
)
TABLE = Table("table0", "A toy", ROWS, (TOY,))


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, lines, seed in (("train", 200, 0), ("valid", 20, 1)):
        write_copies(folder, name, lines, seed)
    return folder


def asked(texts, out, **changes):
    return replace(Request(TABLE, TOY, ROWS, 2, out, texts), **changes)


@pytest.fixture(scope="module")
def straight(texts, tmp_path_factory):
    """A table that nothing interrupted; read only."""
    request = asked(texts, tmp_path_factory.mktemp("straight"))
    results = run_table(request)
    write_page(request, results)
    return request, results


def killed_during(request, row, seed, number, told):
    """Run the table, and send a signal while this cell trains; the exit status."""
    folder = request.folder / row / f"seed-{seed}"

    def work():
        with told.open("a") as file:

            def say(sentence):
                file.write(f"{sentence}\n")
                file.flush()

            with messages_to(say):
                run_training(lambda: run_table(request))

    process = fork(work)
    started = time.monotonic()
    while not list(folder.glob("run/checkpoints/step-*0*/place.json")):
        assert time.monotonic() - started < MAX_SECONDS
        assert os.waitpid(process, os.WNOHANG) == (0, 0), "the table ended before the signal"
        time.sleep(0.002)
    os.kill(process, number)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert not (folder / "result.json").exists()
    return status


@pytest.mark.long
def test_a_table_that_is_interrupted_ends_as_one_that_is_not(texts, straight, tmp_path):
    request, told = asked(texts, tmp_path), tmp_path / "told"
    assert killed_during(request, "A1", 1, signal.SIGINT, told) == 128 + signal.SIGINT
    assert "Stopped: 1 of 4 cells are complete;" in told.read_text()
    assert "The same command resumes." in told.read_text()
    messages = request.folder / "base" / "seed-1" / "messages.txt"
    assert (
        f"base, seed 1: training. Its messages, with the expected time, are in {messages}."
        in told.read_text()
    )
    assert "Expected: " in messages.read_text()
    first = request.folder / "base" / "seed-1" / "result.json"
    kept = first.stat().st_mtime_ns
    assert killed_during(request, "A1", 2, signal.SIGKILL, told) == -signal.SIGKILL
    assert "Resuming" in (request.folder / "A1" / "seed-1" / "messages.txt").read_text()
    said = []
    with messages_to(said.append):
        results = run_table(request)
    assert first.stat().st_mtime_ns == kept
    assert said[0].startswith("A toy, at the scale toy: 3 of 4 cells are complete; the others train for less")
    pairs = (sorted(each, key=lambda result: (result.row, result.seed)) for each in (results, straight[1]))
    for one, other in zip(*pairs, strict=True):
        values = [asdict(each) | {"minutes": 0, "passport": each.passport["data"]} for each in (one, other)]
        assert values[0] == values[1]
        paths = [
            each.folder / one.row / f"seed-{one.seed}" / name
            for name in ("run/model/model.safetensors", "hypotheses.txt")
            for each in (request, straight[0])
        ]
        assert file_hash(paths[0]) == file_hash(paths[1])
        assert paths[2].read_text() == paths[3].read_text()
    lines = [table_lines(each, found) for each, found in ((request, results), straight)]
    assert [replace(line, minutes=0) for line in lines[0]] == [replace(line, minutes=0) for line in lines[1]]


@pytest.mark.long
def test_two_processes_train_one_cell_after_another(texts, tmp_path):
    request = asked(texts, tmp_path, seeds=1, scale=replace(TOY, updates=10))
    assert worst(as_ranks(2, lambda: run_table(request))) == 0
    assert len(list(request.folder.glob("*/seed-1/result.json"))) == 2
    results = run_table(request)
    assert "| A1 | heads 1, d_k 16, d_v 16 |" in write_page(request, results)


@pytest.mark.long
def test_a_result_has_its_passport_and_the_model_that_was_counted(straight):
    request, results = straight
    for result in results:
        assert result.passport["data"] == text_hashes(find_texts(TOY, request.data).files)
        assert {
            "command",
            "commit",
            "date",
            "torch",
            "threads",
            "machine",
            "device",
        } <= result.passport.keys()
        folder = request.folder / result.row / f"seed-{result.seed}"
        assert json.loads((folder / "result.json").read_text()) == asdict(result)
        trained = json.loads((folder / "run" / "result.json").read_text())
        assert result.perplexity == trained["validation"]["perplexity"]
        assert math.log(result.perplexity) == pytest.approx(result.nll)
        texts = [(folder / file).read_text().splitlines() for file in report.VALIDATION]
        assert result.bleu == bleu(*texts).value
        assert trained["updates"] == TOY.updates
        assert trained["candidates"].keys() == {"best"}, "the one validation is of the last checkpoint"
        assert not (folder / "run" / "checkpoints").exists()
    assert len({result.perplexity for result in results}) == 4


def test_the_settings_of_recorded_results_are_known_today():
    results = list((Path(__file__).parents[1] / "experiments").rglob("result.json"))
    recorded = [(path, json.loads(path.read_text())) for path in results]
    settings = {path: result["settings"] for path, result in recorded if "settings" in result}
    assert settings
    for path, table in settings.items():
        assert overlay(Recipe(), table, str(path)).training.updates


@pytest.mark.long
def test_the_page_has_means_spreads_differences_and_verdicts(straight):
    request, results = straight
    page = (request.folder / "table.md").read_text()
    content = json.loads((request.folder / "table.json").read_text())
    base, row = content["rows"]
    values = [result.perplexity for result in results if result.row == "A1"]
    assert row["perplexity"]["values"] == values
    assert row["perplexity"]["mean"] == pytest.approx(sum(values) / 2)
    means = [each["perplexity"]["mean"] for each in (row, base)]
    assert row["perplexity"]["difference"] == pytest.approx(means[0] - means[1])
    assert row["perplexity"]["paper_difference"] == 1.0
    assert 0 < row["bleu"]["p_value"] <= 1
    assert row["perplexity"]["verdict"] in page
    lines = written_lines(content)
    assert lines == table_lines(request, results)
    assert quality(lines) in page
    assert details(lines) in page
    assert f"{row['perplexity']['mean']:.2f} ± {row['perplexity']['spread']:.2f}" in page
    assert "heads 1, d_k 16, d_v 16" in page
    assert "divided by 2" in page
    assert len(content["passports"]) == 4


def test_scores_of_different_measures_are_not_compared(straight):
    request, results = straight
    results = [replace(results[0], signature="nrefs:2"), *results[1:]]
    with pytest.raises(DragomanError, match="The cells' BLEU has different signatures .*nrefs:2"):
        table_lines(request, results)


# ---- what is kept, and what is refused


def test_more_rows_and_seeds_keep_the_cells_that_are_there(straight, tmp_path, texts, messages):
    request = asked(texts, tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    run_table(replace(request, rows=ROWS[:1], seeds=1))
    assert messages == ["A toy, at the scale toy: 1 of 1 cells are complete."]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda request: replace(request, scale=replace(TOY, tokens=99)),
            "of other settings or another text",
        ),
        (
            lambda request: (request.data / "valid.source").write_text("x\n" * 20) and request,
            "or another text",
        ),
        (
            lambda request: (request.folder / "base/seed-1/result.json").write_text('{"row": 1}') and request,
            "is not as `dragoman reproduce` writes it",
        ),
        (
            lambda request: (request.folder / "base/seed-1/result.json").write_text("{") and request,
            "cannot be read as JSON",
        ),
    ],
    ids=["settings", "text", "keys", "JSON"],
)
def test_results_of_something_else_are_refused(straight, tmp_path, texts, change, message):
    shutil.copytree(texts, tmp_path / "texts")
    request = asked(tmp_path / "texts", tmp_path / "out")
    shutil.copytree(straight[0].folder, request.folder)
    with pytest.raises(DragomanError, match=message):
        run_table(change(request))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("settings", [], r"settings is \[\]"),
        ("minutes", None, "minutes is None"),
        ("bleu", "x", "bleu is 'x'"),
        ("perplexity", math.nan, ".*has the number nan; it must be a finite number"),
        ("row", "A1", "it is the result of A1, seed 1"),
        ("seed", 9, "it is the result of base, seed 9"),
    ],
)
def test_a_damaged_result_is_named(straight, tmp_path, texts, name, value, message):
    request = asked(texts, tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    path = request.folder / "base" / "seed-1" / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(DragomanError, match=rf"base/seed-1/result.json is not as .*: {message}\. Delete its"):
        run_table(request)


def test_a_run_that_was_begun_with_another_text_is_not_resumed(straight, tmp_path, texts):
    shutil.copytree(texts, tmp_path / "texts")
    request = asked(tmp_path / "texts", tmp_path / "out")
    shutil.copytree(straight[0].folder, request.folder)
    shutil.rmtree(request.folder / "A1")
    (request.folder / "base" / "seed-1" / "result.json").unlink()  # as if interrupted
    (tmp_path / "texts" / "train.source").write_text("x\n" * 200)
    (tmp_path / "texts" / "train.target").write_text("x\n" * 200)
    request = replace(request, rows=ROWS[:1], seeds=1)
    with pytest.raises(DragomanError, match="base, seed 1: the run in .* began with a different text"):
        run_table(request)


def test_the_page_names_results_that_were_not_asked_for(straight):
    request, results = straight
    assert "Not in this table" not in write_page(request, results)
    fewer = replace(request, rows=ROWS[:1], seeds=1)
    page = write_page(fewer, [each for each in results if (each.row, each.seed) == ("base", 1)])
    assert "were not asked for: the results of A1, seed 1; A1, seed 2; base, seed 2." in page
    write_page(request, results)


def test_a_setting_that_came_later_leaves_results_valid(straight, tmp_path, texts):
    request = asked(texts, tmp_path)
    shutil.copytree(straight[0].folder, request.folder)
    path = request.folder / "base" / "seed-1" / "result.json"
    found = json.loads(path.read_text())
    del found["settings"]["model"]["norm_epsilon"]  # as if it had not existed then
    path.write_text(json.dumps(found))
    assert len(run_table(request)) == 4


def test_a_cell_that_cannot_be_trained_is_named(tmp_path, texts):
    request = asked(texts, tmp_path, scale=replace(TOY, vocabulary=6))
    with pytest.raises(DragomanError, match="base, seed 1: A vocabulary of 6 tokens is too small"):
        run_table(request)


def test_missing_text_is_named_with_all_that_is_needed(tmp_path, texts):
    shutil.copytree(texts, tmp_path / "texts")
    (tmp_path / "texts" / "valid.target").unlink()
    with pytest.raises(DragomanError) as error:
        find_texts(TOY, tmp_path / "texts")
    for words in (
        "no valid.target in",
        "train.source, train.target, valid.source",
        "words and their",
        "--data",
    ):
        assert words in str(error.value)


def test_without_a_folder_the_named_dataset_is_read(tmp_path, monkeypatch, messages):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "dragoman" / "multi30k-en-de"
    folder.mkdir(parents=True)
    (folder / "train.en").write_text("not it\n")
    with pytest.raises(DragomanError, match="is not the dataset's train.en.* Or name the folder .* --data"):
        find_texts(TABLE3.scale("multi30k"), None)
    assert messages[0].startswith("multi30k-en-de: 29,000 image descriptions")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a table; there are: table1, table2, table3, baselines, learning-curves."),
        (
            ["table9"],
            "There is no table 'table9'; there are: table1, table2, table3, baselines, learning-curves.",
        ),
        (["table4"], "Table 4 is trained by a recipe: dragoman train experiments/table4/wsj.toml --folder"),
        (["table3", "--scale", "huge"], "no scale 'huge' of table3; there are: multi30k, tatoeba, paper."),
        (["table3", "--rows", "A,Z"], "table3 has no row 'Z'; it has the rows base, A1, A2"),
        (
            ["baselines", "--rows", "rnn"],
            "baselines has no row 'rnn'; it has the rows transformer",
        ),
        (
            ["learning-curves", "--rows", "A"],
            "learning-curves has no row 'A'; it has the rows transformer, lstm, conv.",
        ),
        (["baselines", "--scale", "paper"], "no scale 'paper' of baselines; there are: multi30k, tatoeba."),
        (["learning-curves", "--data", "{0}"], "There is no train.en in {0}, plain or as train.en.gz."),
        (["table3", "--seeds", "0"], "--seeds is 0; it must be at least 1, and at most 1,000."),
        (["table3", "--seeds", "1001"], "--seeds is 1001; it must be at least 1, and at most 1,000."),
        (["table3", "--data", "{0}"], "There is no train.en in {0}, plain or as train.en.gz."),
        (["table3", "--scale", "paper", "--data", "{0}"], "reads train.en, train.de, newstest2013.en"),
    ],
)
def test_wrong_input_gets_a_sentence(monkeypatch, capsys, tmp_path, arguments, message):
    words = [argument.format(tmp_path) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["dragoman", "reproduce", *words, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert message.format(tmp_path) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_list_has_every_row_and_scale(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dragoman", "reproduce", "--list"])
    cli.main()
    out = capsys.readouterr().out
    for table, text in zip(TABLES.values(), out.split("\n\n")[2:], strict=True):
        assert text.startswith(f"{table.name}: {table.title}")
        for each in (*table.rows, *table.scales):
            assert f"\n  {each.name}  " in text


# ---- rows and scales


@pytest.mark.parametrize("row", TABLE3.rows, ids=lambda row: row.name)
def test_the_papers_scale_is_the_recipe_of_the_row(row):
    table = read_toml(TOML / f"{row.name.lower()}.toml")
    recipe = overlay(Recipe(), {key: value for key, value in table.items() if key != "model"}, "toml")
    model = overlay(TABLE3.rows[-1 if recipe.preset == "big" else 0].model, table.get("model", {}), "toml")
    ours = TABLE3.scale("paper").recipe(row, 1, DataSettings())
    assert not differences(ours.model, model)
    assert ours.batches == recipe.batches
    assert ours.tokenizer == recipe.tokenizer
    for name in ("updates", "warmup_steps", "label_smoothing", "patience", "average", "learning_rate_scale"):
        assert getattr(ours.training, name) == getattr(recipe.training, name)


@pytest.mark.parametrize("scale", TABLE3.scales, ids=lambda scale: scale.name)
def test_a_scale_keeps_every_rows_proportions(scale):
    base = TABLE3.rows[0].model
    scaled_base = scale.model(base)
    for row in TABLE3.rows:
        scaled = scale.model(row.model)
        for name in ("d_model", "d_ff", "key_width", "value_width", "encoder_layers", "decoder_layers"):
            ratio = getattr(row.model, name) / getattr(base, name)
            assert getattr(scaled, name) / getattr(scaled_base, name) == ratio
        assert (scaled.heads, scaled.dropout, scaled.positions) == (
            row.model.heads,
            row.model.dropout,
            row.model.positions,
        )
        recipe = scale.recipe(row, 1, DataSettings())
        assert recipe.training.updates * 100_000 == scale.updates * row.updates
        assert recipe.training.updates > (recipe.training.warmup_steps or 0)


def test_rows_differ_from_the_first_in_what_they_say():
    base, *others = TABLE3.rows
    scale = TABLE3.scale("multi30k")
    said = {row.name: describe(row, scale, base) for row in others}
    assert len(set(said.values())) == len(others)
    assert said["A1"] == "heads 1, d_k 128, d_v 128"
    assert said["B1"] == "d_k 4"
    assert said["C1"] == "N 1"
    assert said["D3"] == "label_smoothing 0.0"
    assert said["E"] == "positions learned"


def test_rows_are_chosen_by_group_or_name_and_the_first_is_always_there():
    def names(asked):
        return [row.name for row in TABLE3.choose(asked)]

    assert names("D") == ["base", "D1", "D2", "D3", "D4"]
    assert names("B2, E") == ["base", "B2", "E"]
    assert names("") == [row.name for row in TABLE3.rows]


@pytest.mark.parametrize("table", ["table2", "table3", "baselines"])
@pytest.mark.parametrize("rows", [",", "", " ", "A,,B", "A,"])
def test_an_empty_name_of_a_row_is_refused(table, rows, command_line, tmp_path):
    command = ["reproduce", table, "--rows", rows, "--out", tmp_path / "out"]
    status, _, err = command_line(*command)
    assert status == 2
    assert f"--rows is {rows!r}, in which a name is empty; give names separated by commas" in err
    assert not (tmp_path / "out").exists()


def test_every_rows_parameters_at_a_scale_fit_its_sizes():
    scale = TABLE3.scale("multi30k")
    counts = {row.name: count_parameters(scale.model(row.model), 6_000, 6_000) for row in TABLE3.rows}
    assert counts["base"] == counts["A1"] == counts["A4"] == counts["D1"]
    assert counts["B1"] < counts["B2"] < counts["base"] < counts["C7"] < counts["C5"]


@pytest.mark.long
@pytest.mark.parametrize("names", ["big", pytest.param("C,big", marks=pytest.mark.long)])
def test_rows_of_other_sizes_are_run_in_proportion(names, texts, tmp_path):
    """Depths, widths and updates of C and big, from the command's rows to the page, a 32nd as wide."""
    rows, scale = TABLE3.choose(names), replace(TOY, width=32, updates=4, warmup_steps=2)
    request = Request(TABLE3, scale, rows, 1, tmp_path, texts)
    results = {result.row: result for result in run_table(request)}
    page = write_page(request, list(results.values()))
    base = TABLE3.rows[0].model
    for row in rows:
        recipe = read_recipe(request.folder / row.name / "seed-1" / "run")
        for name in ("d_model", "d_ff", "key_width", "value_width", "encoder_layers", "decoder_layers"):
            divisor = 2 if name.endswith("layers") else 32
            assert getattr(recipe.model, name) * divisor == getattr(row.model, name)
        vocabulary = recipe.tokenizer.vocabulary
        assert results[row.name].parameters == count_parameters(recipe.model, vocabulary, vocabulary)
        assert recipe.training.updates == (12 if row.name == "big" else 4)
        assert row.model == base or describe(row, scale, rows[0]) in page


def test_quick_is_the_same_with_a_fifth_of_the_updates_and_the_same_peak_rate():
    scale = TABLE3.scale("multi30k")
    quick = scale.quick()
    assert (quick.updates * 5, quick.warmup_steps * 5) == (scale.updates, scale.warmup_steps)
    peaks = [
        each.learning_rate_scale * learning_rate(each.warmup_steps, 128, each.warmup_steps)
        for each in (scale, quick)
    ]
    assert peaks[0] == pytest.approx(peaks[1])
    assert quick.name != scale.name


# ---- verdicts


@pytest.mark.parametrize(
    ("difference", "spread", "paper", "expected"),
    [
        (2.0, 1.0, 0.5, report.SAME),
        (-2.0, 1.0, 0.5, report.OPPOSITE),
        (0.9, 1.0, 0.5, report.WITHIN),
        (0.1, 1.0, 0.0, report.NO_DIFFERENCE),
        (2.0, 1.0, 0.0, report.NEW_DIFFERENCE),
        (2.0, None, 0.5, report.ONE_SEED),
        (2.0, 1.0, None, report.NOT_IN_PAPER),
    ],
)
def test_verdicts(difference, spread, paper, expected):
    assert verdict(difference, spread, paper) == expected


def test_exchanging_row_and_base_turns_the_difference_and_keeps_the_verdict():
    one = measure([5.0, 5.2, 5.1], [4.0, 4.1, 4.05], 6.0, 5.0)
    other = measure([4.0, 4.1, 4.05], [5.0, 5.2, 5.1], 5.0, 6.0)
    assert one.difference == -other.difference
    assert one.verdict == other.verdict == report.SAME
    assert one.difference_spread == pytest.approx(other.difference_spread)
    assert measure([5.0], [4.0], 6.0, 5.0).difference_spread is None


def test_what_a_seed_does_to_all_rows_takes_no_part_in_a_verdict():
    values, base = [5.0, 9.0, 2.0], [4.9, 8.8, 1.9]
    shifted = [5.0 + 7, 9.0 - 3, 2.0 + 1], [4.9 + 7, 8.8 - 3, 1.9 + 1]
    one, other = measure(values, base, 6.0, 5.0), measure(*shifted, 6.0, 5.0)
    assert one.verdict == other.verdict == report.SAME
    assert one.difference == pytest.approx(other.difference)
    assert one.difference_spread == pytest.approx(other.difference_spread)


@pytest.mark.parametrize("minutes", [(30.0,), (30.0, 90.0), (600.0, 0.0, 30.0)])
def test_the_cells_that_are_left_take_the_mean_of_those_before(minutes):
    results = {
        str(number): Result("base", number, 5.0, 1.6, 20.0, "", 1, time, {}, {})
        for number, time in enumerate(minutes)
    }
    done, mean = len(minutes), sum(minutes) / len(minutes)
    for left in (1, 3):
        time = duration(60 * left * mean)
        assert f"{done} of {done + left} cells are complete" in progress(results, done + left)
        assert f"the others train for {time}" in progress(results, done + left)
    assert progress(results, done) == f"{done} of {done} cells are complete."
    assert progress({}, 2) == "0 of 2 cells are complete."
