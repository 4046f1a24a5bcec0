"""Training runs: interrupted, resumed, finished and refused."""

import json
import math
import os
import pickle
import re
import shutil
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from filelock import FileLock, Timeout
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dragoman.evaluation.metrics import bleu, suitable_tokenization
from dragoman.model import weights as checkpoint
from dragoman.model.loss import perplexity
from dragoman.model.settings import ModelSettings
from dragoman.pipeline import autoconfigure as autoconfigure_module
from dragoman.pipeline import minutes as minutes_module
from dragoman.pipeline.autoconfigure import (
    autoconfigure,
    check_positions,
    choose_from_text,
    updates_per_second,
)
from dragoman.pipeline.compilation import start_compiling
from dragoman.pipeline.micro_batch import GRADIENT_AND_MOMENTS, choose_micro_batch_tokens
from dragoman.pipeline.minutes import seconds_of_validation, seconds_to_translate
from dragoman.pipeline.prepare import prepare, train_tokenizers
from dragoman.pipeline.prepared import (
    PreparedData,
    make_batches,
    make_model,
    make_schedule,
    validation_batches,
)
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.reopen import (
    files_newer_than,
    former_result,
    recorded_recipe,
    reopen,
    report_remaining_time,
)
from dragoman.pipeline.run import Candidate, finish, fit, lock, make_validate, open_run, run
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError, SeveralSentences
from dragoman.system.files import check_folder, copy_folder, file_hash, write_folder, write_manifest
from dragoman.system.messages import messages_to
from dragoman.system.toml import write_toml
from dragoman.text.batches import Batches
from dragoman.text.lines import line_hash
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings, WeightedCorpus
from dragoman.training.checkpoint import TrainingState, average_checkpoints, checkpoints, read_state
from dragoman.training.context import DivergenceError
from dragoman.training.interrupt import OUT_OF_TIME, StopRequest, TrainingInterruptedError, stop_signals
from dragoman.training.loop import is_better, stopped_early, with_extremes
from dragoman.training.objective import make_optimizer, step_optimizer
from dragoman.training.settings import Schedule, TrainingSettings
from dragoman.training.world import World
from dragoman.translation.model_folder import StoredModel, read_about
from dragoman.translation.translator import FEW_SENTENCES, Translator
from tests.conftest import MAX_SECONDS, MEASURED, small_recipe, write_copies
from tests.processes import die_when, dragoman, fork, run_command, worst

HERE = World(device=torch.device("cpu"))


@pytest.fixture
def prepared(tmp_path):
    """A recipe with its text prepared, all choices made."""
    recipe = small_recipe(tmp_path, tmp_path / "run")
    prepare(recipe.out, recipe)
    data = PreparedData.load(recipe.out / "data")
    return autoconfigure(recipe, data, HERE), data


def trained_run(folder: Path, **training: object) -> Recipe:
    """A recipe whose run, in the folder, has ended."""
    recipe = small_recipe(folder, folder / "run", **training)
    run(recipe)
    return recipe


def copied(recipe: Recipe, folder: Path) -> Recipe:
    """The same run, in a folder of the test's own, where it may change."""
    shutil.copytree(recipe.out, folder / recipe.out.name)
    return replace(recipe, out=folder / recipe.out.name)


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Recipe:
    """A run that has made its 24 updates without a stop. Read only."""
    return trained_run(tmp_path_factory.mktemp("straight"))


FAST = {"learning_rate_scale": 8.0, "label_smoothing": 0.0}
"""With them the average of the last checkpoints is the best model."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Recipe, list[str]]:
    """A run that has kept the average of its checkpoints, and what it said. Read only."""
    folder, messages = tmp_path_factory.mktemp("finished"), []
    recipe = small_recipe(folder, folder / "run", **FAST)
    with messages_to(messages.append):
        run(recipe)
    return recipe, messages


@pytest.fixture(scope="module")
def straight_48(tmp_path_factory) -> Recipe:
    """As `finished`, with twice as many updates from the start. Read only."""
    return trained_run(tmp_path_factory.mktemp("straight-48"), updates=48, **FAST)


def final_weights(recipe: Recipe) -> dict[str, torch.Tensor]:
    return load_file(checkpoints(recipe.out)[-1] / "model.safetensors")


def stop_at(step: int, recipe: Recipe, data: PreparedData) -> None:
    """Train, with a SIGTERM sent by the validation at a step."""
    schedule = make_schedule(replace(recipe, training=replace(recipe.training, validate_every=step)))

    def say(message: str) -> None:
        if message.startswith("Validation"):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterruptedError) as interruption, messages_to(say):
        fit(recipe, schedule, data, HERE)
    assert (interruption.value.step, interruption.value.signal_number) == (step, signal.SIGTERM)


VARIANT = {"norm": "batch", "attention_score": "additive", "concatenate_positions": True}
RESTRICTED = {"neighbourhood": 2, "norm": "none", "residual": False}


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("stop", "variant", "optimizer"),
    [
        (5, {}, None),
        (21, {}, None),
        (8, VARIANT, "muon"),
        pytest.param(8, RESTRICTED, "adam", marks=pytest.mark.long),
    ],
)
def test_an_interrupted_run_ends_with_the_weights_of_an_uninterrupted_one(
    straight, tmp_path, stop, variant, optimizer
):
    stopped = small_recipe(tmp_path, tmp_path / "stopped", optimizer=optimizer)
    stopped = replace(stopped, model=replace(stopped.model, **variant))
    if variant:
        straight = replace(stopped, out=tmp_path / "straight")
        run(straight)
    prepare(stopped.out, stopped)
    data = PreparedData.load(stopped.out / "data")
    stopped = autoconfigure(stopped, data, HERE)
    stop_at(stop, stopped, data)
    assert fit(stopped, make_schedule(stopped), data, HERE).step == 24
    ends = []
    for recipe in (straight, stopped):
        tensors, steps = average_checkpoints(recipe.out, 3, 4, 24)
        ends.append((final_weights(recipe), tensors))
        assert steps == [16, 20, 24]
        log = [json.loads(line) for line in (recipe.out / "log.jsonl").read_text().splitlines()]
        updates = [line["step"] for line in log if line["event"] == "train"]
        assert updates == sorted(set(updates))
    for one, other in zip(*ends, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("begun_for", [12, 48])
def test_a_run_resumed_with_other_updates_equals_one_started_with_them(straight, tmp_path, begun_for):
    recipe = small_recipe(tmp_path, tmp_path / "changed", updates=begun_for)
    prepare(recipe.out, recipe)
    data = PreparedData.load(recipe.out / "data")
    write_toml(autoconfigure(recipe, data, HERE), recipe.out / "recipe.toml")
    stop_at(8, recorded_recipe(recipe.out), data)
    messages = []
    with messages_to(messages.append):
        run(replace(recipe, training=replace(recipe.training, updates=24)))
    assert f"Changed: training.updates is 24 and was {begun_for}." in messages
    assert not [message for message in messages if "is newer than this run's copy" in message]
    weights = [final_weights(each) for each in (straight, recipe)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert json.loads((recipe.out / "result.json").read_text())["updates"] == 24


@pytest.mark.parametrize(
    ("validations", "said"),
    [
        ([], []),
        ([(0, 0.0)], []),  # an adaptation that has only its first validation
        ([(0, 0.0), (4, 2.0)], ["Remaining: 6 updates at most, 3 minutes."]),
        ([(2, 5.0), (4, 2.0)], ["Remaining: 6 updates at most, 3 minutes."]),
    ],
)
def test_the_remaining_time_is_that_of_the_speed_so_far(tmp_path, validations, said, messages):
    (tmp_path / "checkpoints" / "step-00000006").mkdir(parents=True)
    events = [{"event": "validation", "step": step, "minutes": minutes} for step, minutes in validations]
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    schedule = Schedule(updates=12, warmup_steps=1, validate_every=2, checkpoint_every=2)
    report_remaining_time(tmp_path, schedule)
    assert messages == said
    messages.clear()
    report_remaining_time(tmp_path, replace(schedule, updates=6))
    assert not messages


@pytest.mark.long
def test_a_finished_run_resumes_with_more_updates(finished, straight_48, tmp_path, messages):
    """Also where its model was an average: the best checkpoint is kept beside it."""
    recipe = copied(finished[0], tmp_path)
    later = replace(recipe, training=replace(recipe.training, updates=48))
    first = (recipe.out / "result.json").read_text()
    assert "average" in json.loads(first)["model"]
    average = file_hash(recipe.out / "model" / "model.safetensors")
    begun = tmp_path / "begun"  # as a process leaves it that is killed before it renames result.json
    shutil.copytree(recipe.out, begun)
    (begun / "model").rename(begun / "previous-model")
    (begun / "best").rename(begun / "model")
    assert former_result(begun, later) == begun / "result-24.json"
    shutil.rmtree(begun / "previous-model")
    with pytest.raises(DragomanError, match="choose another out"):
        former_result(begun, later)
    run(later)
    assert "Changed: training.updates is 48 and was 24." in messages
    assert "Remaining: 24 updates at most, less than a minute." in messages
    assert (recipe.out / "result-24.json").read_text() == first
    assert f"The model so far is kept in {recipe.out / 'previous-model'}." in messages
    assert file_hash(recipe.out / "previous-model" / "model.safetensors") == average
    for weights in (final_weights, lambda each: load_file(each.out / "model" / "model.safetensors")):
        one, other = weights(straight_48), weights(later)
        assert all(torch.equal(one[name], other[name]) for name in one)
    results = [json.loads((each.out / "result.json").read_text()) for each in (straight_48, later)]
    assert results[0] | {"minutes": 0} == results[1] | {"minutes": 0}
    events = [json.loads(line) for line in (recipe.out / "log.jsonl").read_text().splitlines()]
    minutes = [event["minutes"] for event in events if event["event"] == "validation"]
    assert minutes == sorted(minutes), "the time of the earlier process counts"
    assert results[1]["minutes"] >= minutes[-1] - 1e-6  # it is rounded
    best = [read_state(checkpoints(each.out)[-1]).best for each in (straight_48, later)]
    assert best[0] == best[1]
    (recipe.out / "result.json").unlink()  # as an interruption at the end leaves the run
    run(later)
    assert file_hash(recipe.out / "previous-model" / "model.safetensors") == average
    assert json.loads((recipe.out / "result.json").read_text())["model"] == results[1]["model"]


def test_a_search_that_is_impossible_leaves_a_finished_run_finished(finished, tmp_path):
    recipe = copied(finished[0], tmp_path)
    asked = replace(recipe.training, updates=48), SearchSettings(ban_words=(" ",))
    before = {path.name: path.read_bytes() for path in recipe.out.iterdir() if path.is_file()}
    with pytest.raises(DragomanError, match="ban_words is ' ', which has no tokens"):
        run(replace(recipe, training=asked[0], search=asked[1]))
    assert {path.name: path.read_bytes() for path in recipe.out.iterdir() if path.is_file()} == before


def test_a_language_that_changes_is_that_of_the_model(finished, tmp_path):
    recipe = copied(finished[0], tmp_path)
    data, training = replace(recipe.data, source_language="pt"), replace(recipe.training, updates=25)
    run(replace(recipe, data=data, training=training))
    assert StoredModel.load(recipe.out).languages.source == "pt"


@pytest.mark.parametrize("accumulate", [1, 7, 50])
def test_the_passes_over_the_text_are_those_of_the_updates(tmp_path, accumulate):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    recipe = replace(recipe, batches=replace(recipe.batches, accumulate=accumulate))
    prepare(recipe.out, recipe)
    messages: list[str] = []
    with messages_to(messages.append):
        found = autoconfigure(recipe, PreparedData.load(recipe.out / "data"), HERE)
    batches = len(make_batches(found, PreparedData.load(recipe.out / "data"), HERE).plan(0))
    passes = found.training.updates * accumulate / batches
    assert any(f"{passes:,.1f} times over the text" in message for message in messages), messages


@pytest.mark.long
def test_a_finished_run_whose_newest_checkpoint_is_truncated_resumes_from_the_one_before(
    finished, straight_48, tmp_path
):
    recipe = copied(finished[0], tmp_path)
    later = replace(recipe, training=replace(recipe.training, updates=48))
    newest = checkpoints(recipe.out)[-1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:100])
    messages: list[str] = []
    with messages_to(messages.append):
        run(later)
    assert "Resuming from step-00000020; the updates after it are repeated." in messages
    assert (recipe.out / "result-24.json").exists()
    one, other = final_weights(straight_48), final_weights(later)
    assert all(torch.equal(one[name], other[name]) for name in one)
    for path in checkpoints(recipe.out):
        (path / "model.safetensors").write_bytes(b"")
    with pytest.raises(
        DragomanError, match=r"All checkpoints in .* are damaged \(3\); start again with another out"
    ):
        run(replace(later, training=replace(later.training, updates=96)))


def validation_scores(recipe: Recipe, step: int) -> dict[str, float]:
    events = (json.loads(line) for line in (recipe.out / "log.jsonl").read_text().splitlines())
    (event,) = [event for event in events if event["event"] == "validation" and event["step"] == step]
    return {name: event[name] for name in ("loss", "nll", "perplexity", "bleu")}


@pytest.mark.long
def test_the_kept_model_has_the_lowest_perplexity_of_best_last_and_average(tmp_path):
    """Here it falls fast: the last checkpoint beats the average and an early one with better BLEU."""
    recipe, messages = small_recipe(tmp_path, tmp_path / "run", learning_rate_scale=0.2), []
    prepare(recipe.out, recipe)
    data, schedule = PreparedData.load(recipe.out / "data"), make_schedule(recipe)
    state = fit(recipe, schedule, data, HERE)
    state = replace(state, best=validation_scores(recipe, 8) | {"bleu": 99.0}, best_step=8)
    best = file_hash(recipe.out / "model" / "model.safetensors")
    with messages_to(messages.append):
        finish(recipe, data, state, HERE)
    result = json.loads((recipe.out / "result.json").read_text())
    found = {kind: scores["perplexity"] for kind, scores in result["candidates"].items()}
    assert found.keys() == {"best", "last", "average"}
    assert min(found, key=found.__getitem__) == result["kept"] == "last"
    assert result["validation"] == result["candidates"]["last"]
    names = {"best": "best by BLEU", "last": "last", "average": "average"}
    numbers = ", ".join(f"{names[kind]} {perplexity:.4g}" for kind, perplexity in found.items())
    assert (
        "Kept: the last checkpoint, at 24. Of the candidates it has the lowest validation perplexity "
        f"({numbers})." in messages
    )
    kept, last = load_file(recipe.out / "model" / "model.safetensors"), final_weights(recipe)
    assert all(torch.equal(kept[name], weight) for name, weight in last.items())
    assert file_hash(recipe.out / "best" / "model.safetensors") == best, (
        "a later end resumes with the best model"
    )
    by_loss = replace(recipe, training=replace(recipe.training, best_by="loss"))
    with messages_to(messages.append):
        finish(by_loss, data, state, HERE)
    assert f"(best by loss {found['best']:.4g}, " in messages[-3]


def test_validations_say_their_update_and_which_model_they_are_of(finished):
    said = [message.split(": loss ")[0] for message in finished[1]]
    validations = [message for message in said if message.startswith("Validation")]
    assert validations[:3] == [f"Validation at update {step}" for step in (8, 16, 24)]
    assert validations[-1] == "Validation of the average of the checkpoints at 16, 20, 24"


def test_a_validation_is_of_greedy_translations_and_shows_some_of_all_its_parts(tmp_path):
    source, target = write_copies(tmp_path, "valid", 20, seed=1)
    recipe = small_recipe(tmp_path, tmp_path / "run")
    recipe = replace(recipe, data=replace(recipe.data, valid_source=source, valid_target=target))
    prepare(recipe.out, recipe)
    data = PreparedData.load(recipe.out / "data")
    model = make_model(recipe, data, HERE.device)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    scores, samples = make_validate(recipe, data, HERE)(model, "of a test")
    translator = Translator.from_model(model, data.tokenizers)
    found, other = (
        translator.translate(data.valid_source, SearchSettings(beam_size=beam_size)) for beam_size in (1, 2)
    )
    assert found != other
    score = bleu(found, data.valid_target, suitable_tokenization(data.valid_target))
    assert scores["bleu"] == pytest.approx(score.value)
    columns = data.valid_source, data.valid_target, found
    names = ("source", "reference", "translation")
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    places = [rows.index(sample) for sample in samples]
    assert places == sorted({*places})
    assert places[0] == 0
    assert places[-1] >= len(rows) // 2


def killed_at(operation: int, work) -> bool:
    """Do the work in a process that dies before its n-th move or removal of a file; whether it finished."""
    done = iter(range(operation))

    def ending(function):
        def instead(*arguments, **named):
            if next(done, None) is None:
                os._exit(137)
            return function(*arguments, **named)

        return instead

    def cut():
        Path.rename, Path.replace, os.unlink, os.rmdir = map(
            ending, (Path.rename, Path.replace, os.unlink, os.rmdir)
        )
        work()

    status = os.waitstatus_to_exitcode(os.waitpid(fork(cut), 0)[1])
    assert status in {0, 137}
    return status == 0


def test_of_models_that_diverged_the_one_with_the_lower_loss_is_kept():
    losses = {"best": 7943.2, "last": 7891.4, "average": math.nan}
    scores = {kind: {"nll": nll, "perplexity": perplexity(nll)} for kind, nll in losses.items()}
    candidates = [Candidate(kind, kind, found, None) for kind, found in scores.items()]
    assert scores["best"]["perplexity"] == scores["last"]["perplexity"]  # the limit
    for order in permutations(candidates):
        assert min(order, key=Candidate.nll).kind == "last"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_run_killed_while_it_finishes_or_reopens_keeps_its_best_model(finished, tmp_path):
    recipe, _ = finished
    ended, folder, begun = recipe.out, tmp_path / "killed", tmp_path / "begun"
    recorded, data = replace(recorded_recipe(ended), out=folder), PreparedData.load(ended / "data")
    state, best = read_state(checkpoints(recipe.out)[-1]), load_file(ended / "best" / "model.safetensors")

    def reopen_again():
        reopen(folder, recorded)

    def from_the_start_of(state: Path):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(state, folder)

    def has_the_best():
        reopen_again()
        assert not (folder / "best").exists()
        check_folder(folder / "model")
        assert all(
            torch.equal(best[name], weight)
            for name, weight in load_file(folder / "model" / "model.safetensors").items()
        )

    shutil.copytree(ended, begun)
    (begun / "result.json").unlink()
    shutil.copytree(ended / "model", begun / "previous-model")  # of an earlier end
    operations, ends = -1, False
    while not ends:
        from_the_start_of(begun)
        ends = killed_at(operations := operations + 1, reopen_again)
        has_the_best()
    assert operations > 5
    shutil.rmtree(begun)
    shutil.copytree(folder, begun)
    operations, ends = -1, False
    while not ends:
        from_the_start_of(begun)
        ends = killed_at(
            operations := operations + 1,
            lambda: finish(recorded, data, state, HERE),
        )
        if not (folder / "result.json").exists():
            has_the_best()
    assert operations > 3
    assert (folder / "result.json").read_text() == (ended / "result.json").read_text()
    for name in ("model", "best"):
        one, other = (load_file(each / name / "model.safetensors") for each in (folder, ended))
        assert all(torch.equal(weight, other[key]) for key, weight in one.items())


def test_a_copy_of_the_best_model_is_not_taken_for_an_average(tmp_path):
    """As it is there where a run was killed before the average took the model's state."""
    recipe = trained_run(tmp_path, updates=8)
    (recipe.out / "result.json").unlink()
    copy_folder(recipe.out / "best", recipe.out / "model")
    messages = []
    with messages_to(messages.append):
        reopen(recipe.out, recipe)
    assert [(recipe.out / name).exists() for name in ("model", "best", "previous-model")] == [
        True,
        False,
        False,
    ]
    assert messages == [f"Resuming {recipe.out}."]


def test_a_finished_run_that_cannot_resume_says_why(tmp_path, messages):
    recipe = small_recipe(tmp_path, tmp_path / "run", learning_rate_scale=0.0, patience=1)
    run(recipe)
    early = "Trained for 16 updates, as 1 validation (patience) brought no gain: less than a minute."
    assert early in messages

    def again(**training):
        messages.clear()
        run(replace(recipe, training=replace(recipe.training, **training)))

    why = (
        f"{recipe.out} can be resumed with more updates than 16 and, if it stopped early, a "
        f"larger patience, or patience 0."
    )
    again(updates=48)
    assert messages == [
        why,
        f"{recipe.out} is finished. To train it further: "
        f"dragoman train {recipe.out}/recipe.toml --updates MORE",
    ]
    again(patience=0)
    assert json.loads((recipe.out / "result.json").read_text())["updates"] == 24
    assert (recipe.out / "result-16.json").exists()
    for less in ({}, {"updates": 12, "patience": 0}):  # the first command again, and an end that is behind
        again(**less)
        assert messages[0] == why.replace("than 16", "than 24")
    shutil.rmtree(recipe.out / "checkpoints")
    with pytest.raises(
        DragomanError,
        match="is finished and its checkpoints are missing, so it cannot be resumed; choose another out",
    ):
        again(updates=48, patience=0)
    assert (recipe.out / "result.json").exists()


def test_a_finished_run_resumes_only_with_its_result_and_its_best_model(finished, tmp_path):
    recipe = copied(finished[0], tmp_path)
    later = replace(recipe, training=replace(recipe.training, updates=48))
    result = (recipe.out / "result.json").read_text()
    for damaged, message in (("{}", "lacks model, kept"), (result[:-9], "as JSON"), ("[]", "a table")):
        (recipe.out / "result.json").write_text(damaged)
        with pytest.raises(DragomanError, match=rf"result\.json .*{message}"):
            run(later)
    (recipe.out / "result.json").write_text(result)
    (recipe.out / "best" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(DragomanError, match=r"best/model\.safetensors"):
        run(later)
    shutil.rmtree(recipe.out / "best")
    with pytest.raises(
        DragomanError,
        match=r"is finished and the model in .*best is missing, so it cannot be resumed; choose "
        r"another out",
    ):
        run(later)
    assert (recipe.out / "result.json").exists()


@pytest.mark.parametrize("state", ["missing", "damaged", "newer"])
def test_a_model_that_is_not_that_of_the_newest_checkpoint_is_made_again(straight, tmp_path, state, messages):
    recipe = copied(straight, tmp_path)
    (recipe.out / "result.json").unlink()
    shutil.rmtree(recipe.out / "best", ignore_errors=True)
    step = read_state(checkpoints(recipe.out)[-1]).best_step
    expected = load_file(recipe.out / "checkpoints" / f"step-{step:08}" / "model.safetensors")
    model, path = recipe.out / "model", recipe.out / "model" / "model.safetensors"
    if state == "missing":
        shutil.rmtree(model)
    elif state == "damaged":
        path.write_bytes(b"junk")
    else:  # killed before the checkpoint was written that names it
        tensors = {name: tensor + 1 for name, tensor in expected.items()}
        write_folder(model, lambda folder: write_other_weights(straight.out / "model", folder, tensors))
    reopen(recipe.out, recipe)
    assert f"{model} is made from the checkpoint at {step} again." in messages
    found = load_file(path)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    Translator.load(recipe.out)


def write_other_weights(model: Path, folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """The files of a model with other weights."""
    for path in model.iterdir():
        if path.name != "manifest.json":
            shutil.copyfile(path, folder / path.name)
    with safe_open(model / "model.safetensors", "pt") as stored:
        save_file(tensors, folder / "model.safetensors", stored.metadata())


def test_a_model_that_cannot_be_made_again_is_refused(straight, tmp_path):
    recipe = copied(straight, tmp_path)
    (recipe.out / "result.json").unlink()
    shutil.rmtree(recipe.out / "model")
    shutil.rmtree(recipe.out / "best", ignore_errors=True)
    place = checkpoints(recipe.out)[-1] / "place.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"best_step": 1}))
    write_manifest_of(place.parent)
    with pytest.raises(DragomanError, match=r"It cannot be made from a checkpoint: restore .*run/model from"):
        reopen(recipe.out, recipe)


def write_manifest_of(folder: Path) -> None:
    (folder / "manifest.json").unlink()
    write_manifest(folder)


def test_a_text_that_changes_while_it_is_prepared_is_refused(tmp_path, monkeypatch):
    recipe = small_recipe(tmp_path, tmp_path / "run")

    def change(*asked: object) -> object:  # after the first reading
        source = recipe.data.files["source"]
        first, *others = source.read_text().splitlines(keepends=True)
        source.write_text("".join([*others, first]))
        return train_tokenizers(*asked)

    monkeypatch.setattr("dragoman.pipeline.prepare.train_tokenizers", change)
    with pytest.raises(
        DragomanError, match=r"train\.source was changed while it was read; run the command again"
    ):
        prepare(recipe.out, recipe)
    assert not (recipe.out / "data").exists()


def test_a_full_disk_while_the_text_is_prepared_is_told(tmp_path, monkeypatch):
    def short_write(*_: object, **__: object) -> None:
        raise OSError("1000 requested and 10 written")  # as numpy says it

    monkeypatch.setattr(np, "save", short_write)
    with pytest.raises(OSError, match="No space left on device") as told:
        run(small_recipe(tmp_path, tmp_path / "run"))
    assert told.value.filename == str(tmp_path / "run")


def test_a_text_that_changed_since_the_run_began_is_named(tmp_path):
    recipe = trained_run(tmp_path, updates=8)
    (recipe.out / "result.json").unlink()
    later = (recipe.out / "data" / "train" / "corpus.json").stat().st_mtime + 1
    os.utime(recipe.data.source, (later, later))
    recipe.data.target.unlink()
    messages = []
    with messages_to(messages.append):
        run(recipe)
    assert (
        f"{recipe.data.source} is newer than this run's copy of it; the run continues with the copy."
        in messages
    )


def test_a_recipe_of_the_users_is_not_taken_for_a_run(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    recipe.out.mkdir()
    (recipe.out / "recipe.toml").write_text("preset = 'tiny'")
    with pytest.raises(
        DragomanError, match=r"run has a recipe\.toml and no prepared text, so it is not a run\. Choose"
    ):
        run(recipe)


def test_a_run_may_end_before_its_first_validation(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", checkpoint_every=2)
    prepare(recipe.out, recipe)
    data = PreparedData.load(recipe.out / "data")
    write_toml(autoconfigure(recipe, data, HERE), recipe.out / "recipe.toml")
    stop_at(6, recorded_recipe(recipe.out), data)
    run(replace(recipe, training=replace(recipe.training, updates=3)))
    result = json.loads((recipe.out / "result.json").read_text())
    assert result["updates"] == 6
    assert result["candidates"].keys() == {"best", "average"}
    assert Translator.load(recipe.out).translate(["amber"])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_killed_while_it_trains_the_same_command_ends_with_the_same_model(tmp_path):
    write_copies(tmp_path, "train", 200)
    messages = tmp_path / "messages"

    def command(out: str) -> list[str]:
        flags = (
            "--updates 20 --validate-every 10 --checkpoint-every 5 --log-every 5 "
            "--warmup-steps 20 --preset tiny --d-model 32 --d-ff 32"
        )
        files = [
            "--source",
            str(tmp_path / "train.source"),
            "--target",
            str(tmp_path / "train.target"),
            "--out",
            str(tmp_path / out),
        ]
        return ["train", *files, *flags.split(), "--threads", "1"]

    assert dragoman(1, command("straight"), messages) == 0

    def until_the_third_checkpoint_is_begun() -> None:
        die_when(lambda path: path.endswith("step-00000015.dragoman-new"))
        run_command(command("killed"), messages)

    assert worst([fork(until_the_third_checkpoint_is_begun)]) == signal.SIGKILL
    assert len(checkpoints(tmp_path / "killed")) == 2
    assert dragoman(1, command("killed"), messages) == 0
    assert "Resuming " in messages.read_text()
    one, other = (load_file(tmp_path / out / "model" / "model.safetensors") for out in ("straight", "killed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def assert_learnt(out: Path, test_target: Path) -> None:
    """The run translates most of its test data, 50 lines, to the letter, and has scored them."""
    assert json.loads((out / "result.json").read_text())["test"][0]["value"] > 80
    hypotheses = (out / "test.hypotheses.txt").read_text().splitlines()
    right = sum(
        one == other for one, other in zip(hypotheses, test_target.read_text().splitlines(), strict=True)
    )
    assert right > 35


def test_a_transformer_learns_in_seconds_to_write_capitals_and_its_test_data_is_scored(trained):
    assert_learnt(trained / "run", trained / "scored.target")


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [{"architecture": "conv"}, {"architecture": "gru"}, {"attention_score": "general", "norm": "batch"}],
    ids=["conv", "gru", "variant"],
)
def test_other_models_learn_it_too(tmp_path, kind, messages):
    write_copies(tmp_path, "train", 2000)
    test_source, test_target = write_copies(tmp_path, "test", 50, seed=1)
    recipe = Recipe(
        out=tmp_path / "run",
        data=DataSettings(
            source=tmp_path / "train.source",
            target=tmp_path / "train.target",
            test_source=test_source,
            test_target=test_target,
        ),
        tokenizer=TokenizerSettings(source_tokens="word", vocabulary=50),
        model=ModelSettings(
            **kind,
            d_model=32,
            d_ff=64,
            heads=4,
            encoder_layers=1,
            decoder_layers=1,
            dropout=0.0,
        ),
        batches=BatchSettings(source_tokens_per_batch=600, target_tokens_per_batch=600),
        training=TrainingSettings(updates=200, warmup_steps=40, learning_rate_scale=0.3, validate_every=100),
    )
    run(recipe)
    assert any(message.startswith("Test: BLEU = ") for message in messages)
    assert_learnt(recipe.out, test_target)


def test_validation_pairs_that_are_held_out_are_no_longer_than_those_to_train_on(tmp_path, messages):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    first = min((tmp_path / "train.source").read_text().splitlines(), key=line_hash)
    long = next(
        text
        for text in (f"{first} {'birch ' * number}" for number in range(10, 10_000))
        if line_hash(text) < line_hash(first)
    )
    for side in ("source", "target"):
        with (tmp_path / f"train.{side}").open("a") as file:
            file.write(f"{long}\n")
    prepare(recipe.out, replace(recipe, data=replace(recipe.data, longest=9)))
    data = PreparedData.load(recipe.out / "data")
    assert long.strip() not in map(str.strip, data.valid_source)
    assert "1 longer than the recipe allows, or without a token on a side, left out" in messages[0]
    assert len(data.train) + len(data.valid) == 200


def test_texts_beyond_the_positions_to_learn_are_refused_before_training(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    recipe = replace(recipe, model=replace(recipe.model, positions="learned", max_positions=4))
    with pytest.raises(
        DragomanError,
        match=r"A text of the training data has \d tokens with its end, and the model learns 4 "
        r"positions\. Raise",
    ):
        run(recipe)


@pytest.mark.parametrize(
    ("option", "cause"),
    [("drop_copies", "copies left out"), ("drop_overlap", "sources of other data left out")],
)
def test_an_empty_corpus_is_refused_with_its_file_and_its_cause(tmp_path, option, cause):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    text = recipe.data.source
    empty = replace(recipe.data, target=text, test_source=text, test_target=text, **{option: True})
    with pytest.raises(
        DragomanError, match=rf"train.source has too few different sentences, {cause} \({option}\), to hold"
    ):
        run(replace(recipe, data=empty))


def test_one_update_is_told_in_the_singular(tmp_path, messages):
    schedule = {"updates": 1, "warmup_steps": None, "validate_every": 1, "checkpoint_every": 1}
    run(small_recipe(tmp_path, tmp_path / "run", **schedule))
    said = "\n".join(messages)
    for told in ("1 warm-up step", "Training: 1 update at most", "Trained for 1 update:"):
        assert told in said
    assert not re.search(r"\b1 (updates|warm-up steps|pairs)", said)


@pytest.mark.long
def test_what_a_recipe_leaves_open_is_chosen_and_reported(tmp_path, monkeypatch, messages):
    for name, value in MEASURED.items():
        monkeypatch.setattr(f"dragoman.pipeline.autoconfigure.{name}", value)
    recipe = small_recipe(
        tmp_path, tmp_path / "run", updates=None, minutes=0.01, warmup_steps=None, validate_every=None
    )
    recipe = replace(recipe, tokenizer=TokenizerSettings(source_tokens="word"), batches=BatchSettings())
    recipe = replace(recipe, model=replace(recipe.model, d_model=128))
    run(recipe)
    said = "\n".join(messages)
    assert "Asked for a vocabulary" not in said
    assert "Chosen: a vocabulary of" in said
    assert "as many updates as fit into 0.01 min, at most 100,000 or 200 passes" in said
    assert "Expected: 0.01 min, at " in said
    recorded = recorded_recipe(recipe.out)
    assert recorded.training.updates >= 1
    half = "warm-up steps?, half of the updates: so few may not converge"
    assert re.search(half, said) or recorded.training.updates == 1  # on a slow machine
    assert recorded.batches.source_tokens_per_batch == 1024


@pytest.mark.short_form(1)
@pytest.mark.parametrize("compiling", [0.0, 1.0, 9.0])
def test_the_measured_speed_is_that_of_updates_whose_kernels_are_compiled(tmp_path, monkeypatch, compiling):
    for name, value in MEASURED.items():
        monkeypatch.setattr(f"dragoman.pipeline.autoconfigure.{name}", value)
    recipe = small_recipe(tmp_path, tmp_path / "run")
    open_run(recipe.out, recipe, HERE)
    data = PreparedData.load(recipe.out / "data")
    model, batches = make_model(recipe, data, HERE.device), make_batches(recipe, data, HERE)
    clock, shapes, encode = SimpleNamespace(now=0.0), set(), model.encode

    def timed_encode(source):
        clock.now += 0.5 + compiling * (source.shape not in shapes)
        shapes.add(source.shape)
        return encode(source)

    model.encode = timed_encode
    monkeypatch.setattr(autoconfigure_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    speed, error = updates_per_second(model, batches, recipe, HERE)
    assert len(shapes) > 1
    # Two batches an update, half a second each; the updates measured differ in size from the mean.
    assert speed == pytest.approx(1.0, rel=0.2)
    assert 0.1 <= error <= 0.5


def test_a_validation_is_measured_with_translations_as_long_as_the_references(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", native=False)
    open_run(recipe.out, recipe, HERE)
    data = PreparedData.load(recipe.out / "data")
    model, steps = make_model(recipe, data, HERE.device), []
    decode = model.decode

    def counted_decode(target, state):
        steps.append(target.size(1))
        return decode(target, state)

    model.decode = counted_decode
    assert seconds_of_validation(model, recipe, data, HERE) > 0
    assert model.training
    longest = data.valid.lengths()[1].max() + 1  # with END
    assert 0 < len(steps) <= 2 * longest  # of the sample, twice


@given(st.integers(1, 300), st.floats(0, 5), st.floats(0.001, 5))
def test_the_time_of_a_translation_is_that_of_as_many_lines_however_the_first_one_takes(count, first, each):
    """Of a sample. The first call waits for the compiler, unless it has so few lines that PyTorch translates
    them; then the next one waits.
    """
    clock = SimpleNamespace(now=0.0, calls=[], is_compiled=False)

    def translate(lines, settings):
        clock.now += each * len(lines)
        clock.calls.append(len(lines))
        if not clock.is_compiled and len(lines) > FEW_SENTENCES:
            clock.now, clock.is_compiled = clock.now + first, True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minutes_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
        lines = [f"line {number}" for number in range(count)]
        found = seconds_to_translate(SimpleNamespace(translate=translate), lines, SearchSettings())
    assert found == pytest.approx(count * each)
    assert max(clock.calls) <= minutes_module.SAMPLE


def test_the_tokens_at_once_are_of_the_longest_pairs_beside_what_an_update_allocates(prepared, monkeypatch):
    """Gradients and moments are reserved; with twice as much memory beyond them there are twice as many."""
    recipe, data = prepared
    recipe = replace(recipe, batches=replace(recipe.batches, target_tokens_per_batch=130))
    model = make_model(recipe, data, HERE.device)
    weights = sum(weight.nbytes for weight in model.parameters())
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer = make_optimizer(model)
    step_optimizer(optimizer, model, 0.1, 0.0)
    kept = [weight.grad for weight in model.parameters()]
    kept += [each for state in optimizer.state.values() for each in state.values() if each.dim()]
    reserved = sum(each.nbytes for each in kept)
    assert reserved == GRADIENT_AND_MOMENTS * weights
    batches, loaded, chosen = make_batches(recipe, data, HERE), [], []
    longest, load = np.maximum(*batches.lengths), Batches.load
    monkeypatch.setattr(Batches, "load", lambda own, pairs: loaded.append([*pairs]) or load(own, pairs))
    for beyond in (0, 10**5, 2 * 10**5, 10**12):
        free = reserved + beyond
        monkeypatch.setattr("dragoman.training.memory.free_memory", lambda device, free=free: free)
        chosen.append(choose_micro_batch_tokens(model, recipe, data, HERE))
    assert chosen[0] == 1
    assert 1 < chosen[1] < chosen[3] == max(batches.caps)
    assert chosen[2] == pytest.approx(2 * chosen[1], abs=1)
    for pairs in loaded:
        assert min(longest[pairs]) >= sorted(longest)[-len(pairs)]


def test_lines_of_several_sentences_in_the_data_are_not_warned_of(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=2, validate_every=1)
    pair = [tmp_path / "several.source", tmp_path / "several.target"]
    for path in pair:
        path.write_text("Amber birch. Cedar delta. Ember fjord.\n" * 4)
    names = ("valid_source", "valid_target", "test_source", "test_target")
    data = replace(recipe.data, **dict(zip(names, pair * 2, strict=True)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(replace(recipe, data=data))
    with pytest.warns(SeveralSentences, match="4 of 4 texts"):
        Translator.load(recipe.out).translate(pair[0].read_text().splitlines(), min_length=1)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("several", [0, 7, 40])
def test_a_model_folder_has_the_share_of_sources_with_several_sentences(tmp_path, several):
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=1, validate_every=1)
    lines = Path(recipe.data.source).read_text().splitlines()[:40]
    texts = [f"{line}. Cedar." if number < several else line for number, line in enumerate(lines)]
    files = {name: tmp_path / f"text.{name}" for name in ("source", "target", "valid_source", "valid_target")}
    for path in files.values():
        path.write_text("".join(f"{text}\n" for text in texts))
    tokenizer = replace(recipe.tokenizer, source_tokens="char")
    run(replace(recipe, data=replace(recipe.data, **files), tokenizer=tokenizer))
    assert StoredModel.load(recipe.out).several_sentences == several / 40
    about = recipe.out / "model" / "about.json"
    for damaged in ("true", "-0.1", "1.1", '"x"', "NaN"):
        about.write_text(f'{{"several_sentences": {damaged}}}')
        with pytest.raises(DragomanError, match="has to hold several_sentences as a number|the number nan"):
            read_about(recipe.out / "model")


@pytest.mark.parametrize("kinds", [("char", "word"), ("word", "char")])
def test_each_side_has_its_kind_of_tokens(tmp_path, kinds):
    tokenizer = TokenizerSettings(
        source_tokens=kinds[0], target_tokens=kinds[1], share_vocabulary=False, vocabulary=50
    )
    recipe = replace(small_recipe(tmp_path, tmp_path / "run"), tokenizer=tokenizer)
    prepare(recipe.out, recipe)
    line = Path(recipe.data.source).read_text().splitlines()[0].split()[0]
    tokenizers = PreparedData.load(recipe.out / "data").tokenizers
    for tokenizer, kind, text in zip(
        (tokenizers.source, tokenizers.target), kinds, (line, line.upper()), strict=True
    ):
        (ids,) = tokenizer.encode([text])
        assert len(ids) == (1 if kind == "word" else len(text)), kind


def test_a_vocabulary_that_the_text_does_not_fill_is_reported(tmp_path):
    recipe, messages = small_recipe(tmp_path, tmp_path / "run"), []
    for share, count in ((True, 1), (False, 2)):
        settings = TokenizerSettings(vocabulary=100_000, share_vocabulary=share, byte_fallback=False)
        messages.clear()
        with messages_to(messages.append):
            prepare(recipe.out, replace(recipe, tokenizer=settings))
        sizes = sorted(
            {len(side) for side in vars(PreparedData.load(recipe.out / "data").tokenizers).values()}
        )
        reports = [message for message in messages if message.startswith("Asked for a vocabulary")]
        assert len(reports) == count
        for size in sizes:
            assert f"Asked for a vocabulary of 100,000 bpe tokens; there are {size:,}." in reports


@pytest.mark.parametrize("has_kernels", [True, False])
def test_training_on_a_gpu_without_kernels_is_reported(tmp_path, monkeypatch, has_kernels, messages):
    found = {} if has_kernels else None
    monkeypatch.setattr("dragoman.native.fused.gpu_replacements", lambda device: found)
    start_compiling(torch.device("cuda"))
    expected = (
        "PyTorch alone trains, slower: the kernels need Triton, a C compiler, Python's headers and an NVIDIA "
        "GPU of compute capability 8.0 or higher."
    )
    assert messages == ([] if has_kernels else [expected])


def test_training_without_kernels_is_reported_and_learns_the_same(tmp_path, monkeypatch):
    weights, said = [], []
    for name, compiles in (("with", lambda: True), ("without", lambda: False)):
        monkeypatch.setattr("dragoman.native.training_kernels.start_compiling_kernels", compiles)
        recipe, messages = small_recipe(tmp_path, tmp_path / name, updates=8), []
        with messages_to(messages.append):
            run(recipe)
        said.append("PyTorch alone trains, slower: the kernels need Linux and a C++ compiler." in messages)
        weights.append(final_weights(recipe))
    assert said == [False, True]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight, rtol=0, atol=1e-5)


def test_denormals_are_flushed_during_training_only(tmp_path):
    found = []

    def say(message: str) -> None:
        if message.startswith("Validation"):
            found.append((torch.tensor(1e-30) * 1e-10).item())

    with messages_to(say):
        run(small_recipe(tmp_path, tmp_path / "run", updates=8))
    assert set(found) == {0.0}
    assert (torch.tensor(1e-30) * 1e-10).item() > 0, "what others compute is left alone"


@pytest.fixture
def listening():
    """Handle signals as at a terminal, also if the tests run under nohup or in the background."""
    former = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


STATUSES = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.short_form(1)
@pytest.mark.usefixtures("listening")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("number", STATUSES)
def test_a_signal_ends_training_with_a_checkpoint_and_its_exit_status(number, tmp_path):
    recipe, messages = (
        small_recipe(tmp_path, tmp_path / "run", updates=10**6, validate_every=10**6),
        tmp_path / "messages",
    )
    recipe.out.mkdir()
    write_toml(recipe, tmp_path / "recipe.toml")
    process = fork(lambda: run_command(["train", str(tmp_path / "recipe.toml")], messages))
    deadline = time.monotonic() + MAX_SECONDS
    while not checkpoints(recipe.out) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process, number)
    assert worst([process]) == STATUSES[number]
    assert f"nothing is lost. Resume with: dragoman resume {recipe.out}" in messages.read_text()
    assert not (recipe.out / "result.json").exists()


@pytest.fixture
def deaf():
    """Stop signals that no one handles are failures."""
    former = {number: signal.signal(number, pytest.fail) for number in STATUSES}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("is_ignored", [False, True])
@pytest.mark.parametrize("number", STATUSES)
def test_the_first_signal_that_is_not_ignored_ends_training(number, is_ignored):
    own = signal.SIG_IGN if is_ignored else pytest.fail
    other = signal.SIGHUP if number == signal.SIGTERM else signal.SIGTERM
    signal.signal(number, own)
    with stop_signals(StopRequest()) as stop:
        assert stop.after(1) is None
        os.kill(os.getpid(), number)
        assert stop.after(2) == (None if is_ignored else number)
        os.kill(os.getpid(), other)
        assert stop.after(3) == (other if is_ignored else number)
    assert [signal.getsignal(each) for each in (number, other)] == [own, pytest.fail]


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("number", STATUSES)
def test_ctrl_c_ends_training_at_once_if_a_signal_came_before(number):
    with pytest.raises(KeyboardInterrupt), stop_signals(StopRequest()):  # noqa: PT012
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), signal.SIGINT)
    assert {signal.getsignal(each) for each in STATUSES} == {pytest.fail}


@pytest.mark.usefixtures("deaf")
def test_training_in_a_thread_leaves_signals_to_the_process():
    def handlers():
        with stop_signals(StopRequest()) as stop:
            assert stop.after(1) is None
            return {signal.getsignal(each) for each in STATUSES}

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(handlers).result() == {pytest.fail}


@pytest.mark.parametrize("number", STATUSES)
def test_the_end_of_the_time_ends_training_unless_a_signal_does(number):
    for deadline, expected in ((math.inf, None), (time.monotonic(), OUT_OF_TIME)):
        request = StopRequest(deadline)
        assert request.after(1) == request.number == expected
        request.handle(number, None)
        assert request.after(2) == request.number == number


@pytest.mark.parametrize(
    "error", [TrainingInterruptedError(signal.SIGTERM, 1234), DivergenceError("It is so.", "Do that.")]
)
def test_an_error_of_a_training_is_the_same_in_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_run_computes_with_the_threads_of_its_recipe(tmp_path):
    before, found = torch.get_num_threads(), []

    def say(message: str) -> None:
        if message.startswith("Validation"):
            found.append(torch.get_num_threads())

    recipe = small_recipe(tmp_path, tmp_path / "run", updates=2, checkpoint_every=1, threads=before + 1)
    try:
        with messages_to(say):
            run(recipe)
        (recipe.out / "result.json").unlink()
        torch.set_num_threads(before)
        with messages_to(say):
            run(replace(recipe, training=replace(recipe.training, threads=None)))  # the recorded number
    finally:
        torch.set_num_threads(before)
    assert len(found) > 2
    assert set(found) == {before + 1}


@pytest.mark.long
@pytest.mark.usefixtures("listening")
def test_ctrl_c_ends_with_a_checkpoint_and_says_how_to_resume(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=12)
    messages = []

    def say(message: str) -> None:
        messages.append(message)
        if message.startswith("Validation"):
            os.kill(os.getpid(), signal.SIGINT)

    with (
        pytest.raises(TrainingInterruptedError, match="interrupted by SIGINT after update 8"),
        messages_to(say),
    ):
        run(recipe)
    assert (
        messages[-1] == f"Stopped after update 8; nothing is lost. Resume with: dragoman resume {recipe.out}"
    )
    assert not (recipe.out / "result.json").exists()
    messages.clear()
    with messages_to(messages.append):
        run(recorded_recipe(recipe.out))
    assert messages[0] == f"Resuming {recipe.out}."
    assert (recipe.out / "result.json").exists()


def test_sharded_weights_need_a_number_of_updates(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", shard=True, updates=None)
    with pytest.raises(
        DragomanError,
        match="With shard the speed of a single process cannot be measured; give a number of updates",
    ):
        open_run(tmp_path / "run", recipe, replace(HERE, size=2))


def test_training_stops_when_validation_no_longer_improves():
    schedule = Schedule(updates=100, warmup_steps=1, validate_every=10, checkpoint_every=10)
    settings = TrainingSettings(patience=2)
    state = TrainingState(step=30, improved_step=20)
    assert not stopped_early(state, settings, schedule)
    assert stopped_early(replace(state, step=40), settings, schedule)
    assert not stopped_early(replace(state, step=90), replace(settings, patience=0), schedule)
    assert is_better({"bleu": 2, "loss": 5}, {"bleu": 1, "loss": 4}, "bleu")
    assert not is_better({"bleu": 2, "loss": 5}, {"bleu": 1, "loss": 4}, "loss")
    assert is_better({"bleu": 0, "loss": 4}, {"bleu": 0, "loss": 5}, "bleu")


SCORES = st.fixed_dictionaries({"bleu": st.integers(0, 2), "loss": st.integers(1, 3)})


@given(SCORES, SCORES)
def test_higher_bleu_or_lower_loss_is_better_and_the_loss_decides_between_equal_bleu(one, other):
    rank, other_rank = ((each["bleu"], -each["loss"]) for each in (one, other))
    assert is_better(one, other, "bleu") == (rank > other_rank)
    assert is_better(one, other, "loss") == (rank[1] > other_rank[1])


@given(st.lists(SCORES, min_size=1, max_size=12))
def test_a_validation_improves_with_a_lower_loss_or_a_higher_bleu_than_all_before(validations):
    state, improved = TrainingState(), 0
    for step, scores in enumerate(validations, 1):
        before = validations[: step - 1]
        lower = all(scores["loss"] < each["loss"] for each in before)
        improved = step if lower or all(scores["bleu"] > each["bleu"] for each in before) else improved
        state = with_extremes(replace(state, step=step), scores)
        assert state.improved_step == improved
    assert state.lowest_loss == min(each["loss"] for each in validations)
    assert state.highest_bleu == max(each["bleu"] for each in validations)


@given(*[st.integers(1, 4)] * 3, st.integers(0, 12), st.integers(0, 30))
def test_training_stops_after_the_validations_of_patience_and_the_warm_up(
    every, patience, warmup, improved, more
):
    schedule = Schedule(updates=10**6, warmup_steps=10 * warmup, validate_every=every, checkpoint_every=every)
    settings, step = TrainingSettings(patience=patience), every * (improved + more)
    state = TrainingState(step=step, improved_step=every * improved)
    assert stopped_early(state, settings, schedule) == (more >= patience and step > 10 * warmup)
    assert not stopped_early(state, replace(settings, schedule="trapezoid"), schedule)


@pytest.mark.long
def test_a_signal_in_the_last_validation_ends_training_and_it_resumes(tmp_path):
    def say(message):
        if message.startswith("Validation at update 24"):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterruptedError, match="SIGTERM after update 24"), messages_to(say):
        run(small_recipe(tmp_path, tmp_path / "one"))
    assert not (tmp_path / "one" / "result.json").exists()
    for name in ("one", "other"):
        run(small_recipe(tmp_path, tmp_path / name))
    results = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "other")]
    assert results[0] | {"minutes": 0} == results[1] | {"minutes": 0}


def test_copies_that_are_not_for_training_are_not_for_validation(tmp_path):
    lines = [f"word {number}" for number in range(101)] * 2  # each source once with a copy
    (tmp_path / "train.source").write_text("".join(f"{line}\n" for line in lines))
    translated = [line if number % 2 else line.upper() for number, line in enumerate(lines)]
    (tmp_path / "train.target").write_text("".join(f"{line}\n" for line in translated))
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=2)
    run(replace(recipe, data=replace(recipe.data, drop_copies=True)))
    source, target = (
        (tmp_path / "run" / "data" / f"valid.{side}.txt").read_text() for side in ("source", "target")
    )
    assert source
    assert not {*source.splitlines()} & {*target.splitlines()}


def test_the_last_checkpoints_are_kept_and_no_others(straight):
    assert [path.name for path in checkpoints(straight.out)] == [
        "step-00000016",
        "step-00000020",
        "step-00000024",
    ]


def test_a_checkpoint_that_a_signal_asked_for_is_not_averaged(prepared):
    recipe, data = prepared
    stop_at(7, recipe, data)
    assert [path.name for path in checkpoints(recipe.out)] == ["step-00000004", "step-00000007"]
    state = fit(recipe, replace(make_schedule(recipe), updates=9), data, HERE)
    assert state.step == 9
    assert average_checkpoints(recipe.out, 3, 4, 9)[1] == [4, 8, 9]


def test_an_early_stop_is_saved(prepared):
    recipe, data = prepared
    recipe = replace(recipe, training=replace(recipe.training, patience=1, learning_rate_scale=0.0))
    schedule = replace(make_schedule(recipe), validate_every=3, checkpoint_every=100, warmup_steps=7)
    state = fit(recipe, schedule, data, HERE)
    assert (state.best_step, state.step) == (3, 8), "after the first update beyond the warm-up"
    assert [path.name for path in checkpoints(recipe.out)] == ["step-00000003", "step-00000008"]


@pytest.mark.long
def test_two_processes_do_not_train_in_one_folder(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    with lock(recipe.out), pytest.raises(DragomanError, match="Another process is training in"):
        run(recipe)


def test_a_new_folder_is_removed_under_its_lock(tmp_path, monkeypatch):
    remove = shutil.rmtree

    def remove_what_is_locked(folder, **options):
        with pytest.raises(Timeout):
            FileLock(folder / ".lock").acquire(timeout=0)
        remove(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", remove_what_is_locked)
    with lock(tmp_path / "run"):
        assert (tmp_path / "run" / ".lock").exists()
    assert not (tmp_path / "run").exists()


def test_waiting_for_a_folder_that_its_holder_removes_gets_the_lock_or_a_sentence(tmp_path):
    out, waits, told = tmp_path / "run", threading.Event(), []

    def wait():
        waits.set()
        try:
            with lock(out):
                told.append("locked")
        except DragomanError as error:
            told.append(str(error))

    thread = threading.Thread(target=wait)
    with lock(out):
        thread.start()
        waits.wait()
        time.sleep(0.2)
        out.rename(tmp_path / "removed")
        thread.join()
        (tmp_path / "removed").rename(out)
    assert told[0] == "locked" or "Another process is training in" in told[0]


@pytest.mark.parametrize("name", ["data/mine.txt", "best/mine.txt", "result.json", "test.hypotheses.txt"])
def test_other_peoples_files_are_not_replaced(tmp_path, name):
    recipe = small_recipe(tmp_path, tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("precious")
    taken = name.partition("/")[0]
    with pytest.raises(
        DragomanError,
        match=f"is not a run, and it has {taken}, which a run would damage; choose another out",
    ):
        run(recipe)
    assert (tmp_path / name).read_text() == "precious"


def test_a_run_that_was_killed_before_its_recipe_was_written_may_begin_again(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    prepare(recipe.out, recipe)
    with lock(recipe.out):
        assert (recipe.out / "data").exists()
    assert (recipe.out / "data").exists()
    (recipe.out / "model").mkdir()
    with (
        pytest.raises(DragomanError, match="it has data, model.*, which a run would damage"),
        lock(recipe.out),
    ):
        pass


def test_a_run_whose_recipe_is_lost_is_not_begun_again(prepared, tmp_path):
    recipe, data = prepared
    stop_at(4, recipe, data)
    manifest = (recipe.out / "data" / "manifest.json").read_bytes()
    (tmp_path / "train.source").write_text("a b c\nb c d\nc d e\n")
    (tmp_path / "train.target").write_text("c b a\nd c b\ne d c\n")
    with pytest.raises(
        DragomanError, match="it has data, model, checkpoints, .* A run has a recipe.toml, which is missing"
    ):
        run(recipe)
    assert (recipe.out / "data" / "manifest.json").read_bytes() == manifest


@pytest.mark.parametrize("text", [" \n", "\u200b\n"])  # the second is not blank, but has no token
def test_validation_data_without_a_pair_is_refused(tmp_path, text):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    (tmp_path / "blank").write_text(text)
    recipe = replace(
        recipe, data=replace(recipe.data, valid_source=tmp_path / "blank", valid_target=tmp_path / "blank")
    )
    with pytest.raises(DragomanError, match="blank have no pair with tokens on both sides"):
        run(recipe)
    assert not recipe.out.exists()


def test_the_same_seed_gives_the_same_weights(prepared):
    recipe, data = prepared
    one, other = (checkpoint.weights(make_model(recipe, data, HERE.device)) for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def equal_updates(folder: Path, name: str, dropout: float = 0.1, **training):
    """The logged updates of a run whose batches are all the same, and its final weights."""
    recipe = small_recipe(
        folder, folder / name, updates=4, log_every=1, validate_every=4, average=1, **training
    )
    for side, text in (("source", "amber birch cedar"), ("target", "AMBER BIRCH CEDAR")):
        (folder / f"train.{side}").write_text(f"{text}\n" * 40)
        (folder / f"valid.{side}").write_text(f"{text}\n")
    valid = {f"valid_{side}": folder / f"valid.{side}" for side in ("source", "target")}
    recipe = replace(
        recipe,
        data=replace(recipe.data, **valid),
        batches=replace(recipe.batches, accumulate=1),
        model=replace(recipe.model, dropout=dropout),
    )
    run(recipe)
    events = [json.loads(line) for line in (recipe.out / "log.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == "train"], final_weights(recipe)


def test_each_update_draws_new_dropout_masks(tmp_path):
    """Weights and batches do not change here: only the masks do."""
    updates, _ = equal_updates(tmp_path, "run", learning_rate_scale=0.0)
    assert len(updates) == len({update["loss"] for update in updates}) == 4


def test_each_update_has_a_gradient_of_its_own(tmp_path):
    """Weights and batches do not change here: the gradient is the same, unless it is added to the last."""
    updates, _ = equal_updates(tmp_path, "run", dropout=0.0, learning_rate_scale=0.0)
    norms = [update["gradient_norm"] for update in updates]
    assert norms == pytest.approx([norms[0]] * 4)


@pytest.mark.long
def test_the_loop_clips_gradients(tmp_path):
    """Adam scales gradients, except those that are small beside its ε."""
    _, initial = equal_updates(tmp_path, "initial", learning_rate_scale=0.0)
    for name, clip_norm, changes in (("free", 0.0, True), ("clipped", 1e-20, False)):
        _, weights = equal_updates(tmp_path, name, clip_norm=clip_norm)
        moved = max((weights[key] - initial[key]).abs().max().item() for key in weights)
        assert (moved > 1e-3) == changes


def test_the_test_data_is_translated_by_the_search_of_the_recipe(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", updates=4)
    source, target = write_copies(tmp_path, "test", 9, seed=3)
    search = SearchSettings(beam_size=2, force_words=("AMBER",))
    data = replace(recipe.data, test_source=source, test_target=target)
    run(replace(recipe, data=data, search=search))
    found = (recipe.out / "test.hypotheses.txt").read_text().splitlines()
    translator, lines = Translator.load(recipe.out), source.read_text().splitlines()
    assert found == translator.translate(lines, search) != translator.translate(lines)
    logged = [json.loads(line) for line in (recipe.out / "log.jsonl").read_text().splitlines()]
    held_out = len((recipe.out / "data" / "valid.source.txt").read_text().splitlines())
    shown = [len(event["samples"]) for event in logged if event["event"] == "validation"]
    assert shown == [min(3, held_out)] * len(shown) != []


@pytest.mark.parametrize("blank", ["", "  "])
def test_validation_pairs_have_two_sides_and_batches_that_fit(tmp_path, blank):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    lines = [f"amber {'birch ' * number}".strip() for number in range(9)]
    sources, targets = [*lines, blank, "amber", blank], [*lines, "AMBER", blank, blank]
    for name, side in (("valid.source", sources), ("valid.target", targets)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in side))
    valid = {f"valid_{side}": tmp_path / f"valid.{side}" for side in ("source", "target")}
    recipe = replace(recipe, data=replace(recipe.data, **valid))
    prepare(recipe.out, recipe)
    assert (recipe.out / "data" / "valid.source.txt").read_text().splitlines() == lines
    data = PreparedData.load(recipe.out / "data")
    longest = 1 + max(int(lengths.max()) for lengths in data.valid.lengths())
    for most in (1, 20, 100):
        batches = replace(recipe.batches, micro_batch_tokens=most)
        parts = validation_batches(replace(recipe, batches=batches), data, HERE)
        assert sum(len(batch.source) for batch in parts) == len(lines)
        for batch in parts:
            assert max(batch.source.numel(), batch.target_in.numel()) <= max(most, longest)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("kind", ["training", "validation"])
def test_a_text_longer_than_the_positions_that_a_model_learns_is_refused(tmp_path, side, kind):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    for name in ("source", "target"):
        word = "amber" if name == "source" else "AMBER"
        texts = {"train": tmp_path / f"train.{name}", "valid": tmp_path / f"valid.{name}"}
        texts["valid"].write_text(f"{word}\n" * 3)
        if name == side:
            long = texts["train" if kind == "training" else "valid"]
            long.write_text(long.read_text() + f"{word} " * 11 + "\n")
        elif kind == "training":
            texts["train"].write_text(texts["train"].read_text() + f"{word}\n")
        else:
            texts["valid"].write_text(texts["valid"].read_text() + f"{word}\n")
    valid = {f"valid_{each}": tmp_path / f"valid.{each}" for each in ("source", "target")}
    recipe = replace(recipe, data=replace(recipe.data, **valid))
    prepare(recipe.out, recipe)
    data = PreparedData.load(recipe.out / "data")
    for most in (12, 11):
        learned = replace(recipe.model, positions="learned", max_positions=most)
        model = make_model(replace(recipe, model=learned), data, HERE.device)
        if most == 12:
            check_positions(model, data)
        else:
            with pytest.raises(DragomanError, match=f"A text of the {kind} data has 12 tokens with its end"):
                check_positions(model, data)


@pytest.mark.parametrize("given", [{}, {"source_tokens_per_batch": 50}, {"target_tokens_per_batch": 60}])
def test_a_batch_has_room_for_the_longest_pair_and_the_numbers_that_are_given(tmp_path, given):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    for path, word in ((recipe.data.source, "amber"), (recipe.data.target, "AMBER")):
        path.write_text(path.read_text() + f"{word} " * 1_500 + "\n")
    recipe = replace(recipe, data=replace(recipe.data, longest=2_000), batches=BatchSettings(**given))
    prepare(recipe.out, recipe)
    chosen, _ = choose_from_text(recipe, PreparedData.load(recipe.out / "data"), 2_500, gpu=False)
    for name in ("source_tokens_per_batch", "target_tokens_per_batch"):
        assert getattr(chosen.batches, name) == given.get(name, 1_501)


def test_the_model_of_a_run_that_is_reopened_has_its_new_language_at_once(finished, tmp_path):
    recipe = copied(finished[0], tmp_path)
    (recipe.out / "result.json").unlink()
    reopen(recipe.out, replace(recipe, data=replace(recipe.data, target_language="pt")))
    assert StoredModel.load(recipe.out).languages.target == "pt"
    assert recorded_recipe(recipe.out).data.languages.target == "pt"


RESULTS_ARE_THE_SAME = {"log_every": 5, "threads": 1, "native": False, "tensorboard": False, "patience": 7}


@pytest.mark.parametrize("setting", RESULTS_ARE_THE_SAME)
def test_what_changes_no_update_may_change_when_a_run_resumes(finished, tmp_path, setting):
    recipe = copied(finished[0], tmp_path)
    (recipe.out / "result.json").unlink()
    changed = replace(recipe.training, **{setting: RESULTS_ARE_THE_SAME[setting]})
    reopen(recipe.out, replace(recipe, training=changed))
    assert getattr(recorded_recipe(recipe.out).training, setting) == RESULTS_ARE_THE_SAME[setting]


@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_texts_that_were_changed_after_the_preparation_are_named(tmp_path_factory, are_newer):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "data" / "train").mkdir(parents=True)
    prepared = folder / "data" / "train" / "corpus.json"
    prepared.touch()
    names = ["valid_source", "valid_target", "a.source", "a.target", "b.source", "b.tsv"]
    newer = []
    for name, is_newer in zip(names, are_newer, strict=True):
        (folder / name).touch()
        if is_newer:
            later = prepared.stat().st_mtime + 1
            os.utime(folder / name, (later, later))
            newer.append(folder / name)
        else:
            os.utime(folder / name, (1, 1))
    corpora = WeightedCorpus(Path("a.source"), Path("a.target")), WeightedCorpus(Path("b.tsv"))
    data = DataSettings(
        folder=folder, corpus=corpora, valid_source=Path("valid_source"), valid_target=Path("valid_target")
    )
    newer = [path for path in newer if path.name != "b.source"]  # no file of the recipe
    assert sorted(files_newer_than(folder / "data", data)) == sorted(newer)
