"""Runs as people look at them."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import __version__
from dragoman.pipeline.passport import describe, origin, read_passports
from dragoman.pipeline.run import lock, run
from dragoman.pipeline.runs import as_json, plot, points, runs_table, runs_under, state_of
from dragoman.system.errors import DragomanError
from dragoman.system.files import file_hash
from dragoman.system.messages import messages_to
from dragoman.text.settings import Languages
from dragoman.training.checkpoint import checkpoints, read_state
from dragoman.training.settings import SCORES
from tests.conftest import MAX_SECONDS, small_recipe, write_copies


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a finished run and one that has not begun to train."""
    folder = tmp_path_factory.mktemp("runs")
    run(small_recipe(folder, folder / "done"))
    (folder / "begun" / "data").mkdir(parents=True)
    (folder / "mine").mkdir()
    (folder / "mine" / "recipe.toml").write_text("preset = 'base'")  # a recipe of one's own, no run
    (folder / "begun" / "recipe.toml").write_text((folder / "done" / "recipe.toml").read_text())
    return folder


def readable_runs(folder):
    """The runs under a folder, in which all can be read."""
    with messages_to(pytest.fail):
        return runs_under(folder)


@pytest.mark.long
def test_runs_are_listed_with_state_and_scores(folder):
    begun, done = readable_runs(folder)
    result = json.loads((folder / "done" / "result.json").read_text())
    assert (done.state, done.step, done.updates, done.validation) == (
        "finished",
        24,
        24,
        result["validation"],
    )
    assert (begun.state, begun.step, begun.validation) == ("stopped", 0, {})
    assert runs_table([begun, done]).row_count == 2
    assert json.loads(as_json(done))["folder"] == str(folder / "done")


def test_a_row_says_what_the_state_of_its_run_is(folder):
    for run_state in readable_runs(folder):
        row = {column.header: next(iter(column.cells)) for column in runs_table([run_state]).columns}
        assert row["run"] == str(run_state.folder)
        assert row["state"] == run_state.state
        assert row["update"] == f"{run_state.step} of {run_state.updates}"
        assert float(row["minutes"]) == pytest.approx(run_state.minutes, abs=0.051)
        scores = {"loss": "loss", "bleu": "BLEU"}
        assert {name for name in scores if row[scores[name]]} == run_state.validation.keys() & scores.keys()
        for name in run_state.validation.keys() & scores.keys():
            assert float(row[scores[name]]) == pytest.approx(run_state.validation[name], abs=0.0051)
    changed = replace(run_state, step=7, minutes=3.25, languages=Languages("de", "pt"), test="BLEU = 1.25")
    row = {column.header: next(iter(column.cells)) for column in runs_table([changed]).columns}
    assert (row["update"], row["languages"], row["test"]) == ("7 of 24", "de → pt", "BLEU = 1.25")
    assert float(row["minutes"]) == pytest.approx(3.25, abs=0.051)


def test_the_test_score_of_a_finished_run_is_the_first_of_its_result(folder, tmp_path):
    shutil.copytree(folder / "done", tmp_path / "done")
    result = json.loads((tmp_path / "done" / "result.json").read_text())
    names = ("name", "value", "signature")
    result["test"] = [dict(zip(names, each, strict=True)) for each in (("A", 12.3456, ""), ("B", 1.0, ""))]
    (tmp_path / "done" / "result.json").write_text(json.dumps(result))
    name, _, value = state_of(tmp_path / "done").test.partition(" = ")
    assert name == "A"
    assert float(value) == pytest.approx(12.3456, abs=0.0051)


@pytest.mark.parametrize("name", SCORES)
def test_a_result_without_a_score_of_validation_is_refused(folder, tmp_path, name):
    shutil.copytree(folder / "done", tmp_path / "done")
    result = json.loads((tmp_path / "done" / "result.json").read_text())
    del result["validation"][name]
    (tmp_path / "done" / "result.json").write_text(json.dumps(result))
    with pytest.raises(
        DragomanError, match=rf"result\.json.*validation lacks {name}; it is not as it was wr"
    ):
        state_of(tmp_path / "done")


def test_the_minutes_of_a_result_are_those_of_its_last_checkpoint(folder):
    minutes = json.loads((folder / "done" / "result.json").read_text())["minutes"]
    assert 60 * minutes == pytest.approx(read_state(checkpoints(folder / "done")[-1]).seconds)


def test_each_start_of_a_training_adds_its_passport(folder, tmp_path, command_line, monkeypatch):
    run_folder = tmp_path / "runs" / "more"
    shutil.copytree(folder / "done", run_folder)
    (first,) = read_passports(run_folder)
    recipe = small_recipe(folder, run_folder)
    run(recipe)  # it is finished: no training begins
    assert read_passports(run_folder) == [first]
    monkeypatch.setattr(sys, "argv", ["/bin/dragoman", "train", "a file"])
    run(replace(recipe, training=replace(recipe.training, updates=25, patience=0)))
    passports = read_passports(run_folder)
    assert passports[0] == first
    assert passports[1]["command"] == "dragoman train 'a file'"
    assert passports[1]["data"] == {"data/manifest.json": file_hash(run_folder / "data" / "manifest.json")}
    for each in passports:
        assert (each["version"], each["torch"]) == (__version__, torch.__version__)
        assert each.keys() >= {"commit", "date", "machine", "device", "threads", "python"}
    passports[0] |= {"date": "1999-01-01", "version": "0.0.9", "machine": "another machine"}
    (run_folder / "passport.json").write_text(json.dumps(passports))
    (state,) = readable_runs(run_folder)
    assert state.passports == json.loads(as_json(state))["passports"] == passports
    status, out, _ = command_line("runs", tmp_path / "runs")
    assert status == 0
    assert all(str(passports[1][name]) in out for name in ("date", "version", "machine"))
    assert not any(passports[0][name] in out for name in ("date", "version", "machine"))
    source, target = write_copies(tmp_path, "test", 3)
    pair = ("--source", source, "--target", target)
    status, out, err = command_line("evaluate", run_folder, *pair, "--json")
    assert status == 0
    assert json.loads(out)["training"] == {str(run_folder): passports}
    assert describe(passports[1]) in err


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                name: st.sampled_from([f"{name}-1", f"{name}-2"])
                for name in ("date", "machine", "device", "torch")
            }
            | {
                "version": st.just("0.1"),
                "commit": st.sampled_from(["abc", "def", None]),
                "dirty": st.booleans(),
            }
        ),
        min_size=1,
        max_size=4,
    )
)
def test_an_origin_has_each_value_once_and_says_whether_the_code_was_changed(passports):
    said = origin(passports)
    assert ("with changes" in said) == any(each["dirty"] for each in passports)
    for name in ("commit", "date", "machine", "device", "torch"):
        assert all(said.count(value) == 1 for value in {str(each[name]) for each in passports})
    for each in passports:
        words = describe(each)
        assert all(each[name] in words for name in ("version", "date", "machine"))
        assert (str(each["commit"]) in words) == (each["commit"] is not None)
        assert ("with changes" in words) == (each["commit"] is not None and each["dirty"])


def test_a_run_of_an_earlier_version_has_no_passport(folder, tmp_path):
    shutil.copytree(folder / "done", tmp_path / "done")
    (tmp_path / "done" / "passport.json").unlink()
    (state,) = readable_runs(tmp_path)
    assert (state.passports, runs_table([state]).row_count) == ([], 1)


@pytest.mark.parametrize("content", ["[", "{}", "[1]", "null"])
def test_a_damaged_passport_is_named(folder, tmp_path, content):
    shutil.copytree(folder / "done", tmp_path / "done")
    (tmp_path / "done" / "passport.json").write_text(content)
    with pytest.raises(DragomanError, match=r"passport\.json"):
        state_of(tmp_path / "done")


def test_a_run_that_is_a_link_is_found_and_links_in_a_circle_end(folder, tmp_path):
    (tmp_path / "linked").symlink_to(folder / "done")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "linked").symlink_to(folder / "done")
    (tmp_path / "more" / "circle").symlink_to(tmp_path)
    assert [state.folder for state in readable_runs(tmp_path)] == [
        tmp_path / "linked",
        tmp_path / "more" / "linked",
    ]
    (alone,) = readable_runs(tmp_path / "linked")
    assert alone.folder == tmp_path / "linked"


def test_a_folder_that_cannot_be_read_as_a_run_is_named_and_the_others_are_listed(folder, tmp_path, messages):
    shutil.copytree(folder / "done", tmp_path / "done")
    for name, recipe in (("project", "name = 1"), ("damaged", "= ")):
        (tmp_path / name / "data").mkdir(parents=True)
        (tmp_path / name / "recipe.toml").write_text(recipe)
    shutil.copytree(folder / "done", tmp_path / "half")
    (tmp_path / "half" / "result.json").write_text("{")
    shutil.copytree(folder / "done", tmp_path / "other")
    (tmp_path / "other" / "result.json").write_text('{"validation": {"bleu": null}}')
    shutil.copytree(folder / "done", tmp_path / "strange")
    recipe = (tmp_path / "strange" / "recipe.toml").read_text()
    (tmp_path / "strange" / "recipe.toml").write_text(recipe.replace("longest = ", "longst = "))
    assert [state.folder.name for state in runs_under(tmp_path)] == ["done"]
    assert "there is no key 'longst'" in messages[4]
    assert "damaged/recipe.toml is not TOML" in messages[0]
    assert "half/result.json cannot be read as JSON: " in messages[1]
    assert "other/result.json lacks model, kept, updates, minutes, candidates" in messages[2]
    assert messages[3].endswith("project/recipe.toml has no table [training]; it is not as a run writes it.")


def test_the_name_of_a_run_is_shown_as_it_is(folder, tmp_path, command_line):
    names = ["runs[big]", ":smile:", "a[/b]"]
    for name in names:
        shutil.copytree(folder / "done", tmp_path / name)
    status, out, _ = command_line("runs", str(tmp_path))
    assert status == 0
    assert all(f"{tmp_path}/{name} " in out for name in names)


@pytest.mark.long
def test_the_name_of_a_run_is_no_script_in_a_drawing(folder, tmp_path):
    place = tmp_path / "<" / "script><script>alert(1)<" / "script>"
    shutil.copytree(folder / "done", place)
    plot(place, tmp_path / "curves.html")
    assert "</script><script>alert(1)" not in (tmp_path / "curves.html").read_text()


def test_a_run_whose_lock_is_held_is_training(folder):
    with lock(folder / "begun"):
        assert state_of(folder / "begun").state == "training"
    assert state_of(folder / "begun").state == "stopped"


def test_points_are_those_of_the_log(folder):
    rows = points(folder / "done")
    assert {row["chart"] for row in rows} >= {"loss", "BLEU", "learning rate"}
    assert [row["step"] for row in rows if row["chart"] == "BLEU"] == [8, 16, 24]


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["png", "svg", "html", "SVG"])
def test_curves_are_drawn(folder, suffix):
    out = folder / f"curves.{suffix}"
    plot(folder / "done", out)
    if suffix == "png":
        assert out.read_bytes().startswith(b"\x89PNG")
    if suffix.lower() == "svg":
        assert "learning rate" in "".join(ElementTree.parse(out).getroot().itertext())
    if suffix == "html":
        assert "learning rate" in out.read_text()
    assert not list(folder.glob(".*"))


def test_what_cannot_be_drawn_is_refused(folder, monkeypatch):
    with pytest.raises(DragomanError, match=r"its name must end in \.png, \.svg or \.html"):
        plot(folder / "done", folder / "curves.gif")
    with pytest.raises(DragomanError, match="log.jsonl cannot be read .* give the folder of a run"):
        plot(folder / "begun", folder / "curves.png")
    with pytest.raises(DragomanError, match="There is no run in"):
        readable_runs(folder / "done" / "model")
    shutil.copytree(folder / "done", folder / "damaged" / "run")
    (folder / "damaged" / "run" / "result.json").write_text("{")
    with pytest.raises(DragomanError, match=r"No run in .*damaged can be read; damaged: 1\."):
        runs_under(folder / "damaged")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DragomanError, match=r"pip install 'dragoman\[plot\]'"):
        plot(folder / "done", folder / "curves.png")


def test_an_empty_log_has_no_curves(tmp_path):
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(
        DragomanError, match="has nothing to draw: no update has been logged yet, or it is damaged"
    ):
        plot(tmp_path, tmp_path / "curves.png")


@pytest.mark.long
def test_a_run_whose_name_is_not_utf_8_is_drawn(folder, tmp_path):
    shutil.copytree(folder / "done", own := Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff")))
    for name in ("curves.svg", "curves.html"):
        plot(own, tmp_path / name)
        text = (tmp_path / name).read_text("utf-8")
        assert "b\ufffd" in text or r"b\ufffd" in text


def test_a_file_in_place_of_a_folder_of_runs_is_named(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(DragomanError, match="a is a file; give the folder that has the runs"):
        readable_runs(tmp_path / "a")


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["runs", "{0}"], ["paper", "base"]])
def test_tables_end_when_their_reader_ends(folder, arguments):
    arguments = [argument.format(folder) for argument in arguments]
    process = subprocess.Popen([sys.executable, "-m", "dragoman", *arguments], stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(MAX_SECONDS) == 141


@pytest.mark.parametrize(
    ("options", "source", "target"),
    [
        ([], "train.de", "train.en"),
        (["--source-language", "en"], "train.en", "train.de"),
        (["--source-language", "de"], "train.de", "train.en"),
        (["--target-language", "de-AT"], "train.en", "train.de"),
    ],
)
def test_doctor_says_which_text_of_a_folder_is_the_source(tmp_path, command_line, options, source, target):
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_text("".join(f"{name} {number} amber\n" for number in range(9)))
    _, _, err = command_line("doctor", tmp_path, *options)
    assert f"The source is {source}, the target {target}; --source-language sets the source." in err


@pytest.mark.long
def test_from_the_command_line(folder, command_line):
    def dragoman(*arguments):
        return CompletedProcess(arguments, *command_line(*arguments))

    listed = dragoman("runs", str(folder), "--json")
    assert [json.loads(line)["state"] for line in listed.stdout.splitlines()] == ["stopped", "finished"]
    assert "finished" in dragoman("runs", str(folder)).stdout
    drawn = dragoman("plot", str(folder / "done"), "--out", str(folder / "again.svg"))
    assert "shows the curves of" in drawn.stderr
    examined = dragoman(
        "doctor", "--source", str(folder / "train.source"), "--target", str(folder / "train.target")
    )
    assert examined.returncode == 1
    assert "Duplicates of earlier pairs: " in examined.stdout
    one_sided = dragoman("doctor", "--source", "a", "--target", "b", "--test-source", "c")
    assert (
        one_sided.stderr == "dragoman: There is only --test-source; give --test-source and --test-target.\n"
    )
    recipe = folder / "recipe.toml"
    recipe.write_text("[data]\nsource = 'train.source'\ntarget = 'nowhere'\n[training]\nupdates = 3\n")
    of_recipe = dragoman("doctor", str(recipe), "--folder", str(folder), "--target", "train.target")
    assert (of_recipe.returncode, of_recipe.stdout) == (1, examined.stdout)
    for kind, name in (("train.de", "train.source"), ("train.en.gz", "train.target")):
        (folder / "texts").mkdir(exist_ok=True)
        content = (folder / name).read_bytes()
        (folder / "texts" / kind).write_bytes(gzip.compress(content) if kind.endswith(".gz") else content)
    of_folder, of_run = dragoman("doctor", str(folder / "texts")), dragoman("doctor", str(folder / "done"))
    assert of_folder.stdout.count("\n") == of_run.stdout.count("\n") == examined.stdout.count("\n")
    empty = (
        f"dragoman: {folder / 'runs'} has no train.*; two texts train.* are needed, or one with both "
        "sides (train.tmx, .tsv or .jsonl). Name them: "
        f"--folder {folder / 'runs'} --source FILE"
    )
    (folder / "runs").mkdir()
    assert dragoman("doctor", str(folder / "runs")).stderr.startswith(empty)
    assert (
        dragoman("doctor").stderr
        == "dragoman: There is no text to examine: dragoman doctor SOURCE TARGET, or a recipe that names "
        "them.\n"
    )


SCORED = st.tuples(st.sampled_from([0.0, 3.0, 7.5]), st.sampled_from([0.5, 1.0, 4.0]))


@settings(max_examples=20)
@given(st.lists(SCORED, min_size=1, max_size=5), st.sampled_from(["bleu", "loss"]))
def test_a_run_that_has_not_ended_has_the_scores_of_its_best_validation(folder, scores, best_by):
    place = folder / "begun"
    recipe = (
        (folder / "done" / "recipe.toml").read_text().replace('best_by = "bleu"', f'best_by = "{best_by}"')
    )
    (place / "recipe.toml").write_text(recipe)
    assert f'best_by = "{best_by}"' in recipe
    events = [
        {"event": "validation", "step": step, "minutes": step / 2, "bleu": bleu, "loss": loss}
        for step, (bleu, loss) in enumerate(scores, 1)
    ]
    events.append({"event": "train", "step": len(scores) + 3})
    (place / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    state = state_of(place)
    (place / "log.jsonl").unlink()
    best = max(scores, key=lambda each: (each[0] if best_by == "bleu" else 0, -each[1]))
    assert (state.state, state.step, state.minutes) == ("stopped", len(scores) + 3, len(scores) / 2)
    assert state.validation["loss"] == best[1]
    assert best_by == "loss" or state.validation["bleu"] == best[0]
