"""What a run expects and what a finished one says of itself, beside its checkpoints and its log."""

import json
from itertools import count
from types import SimpleNamespace

import pytest
import torch

from dragoman.model.weights import load_tensors
from dragoman.pipeline import autoconfigure, minutes, presets
from dragoman.pipeline import run as run_module
from dragoman.pipeline.prepared import PreparedData, make_batches, make_model
from dragoman.pipeline.presets import tokens_per_second
from dragoman.pipeline.recipe import read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.training.checkpoint import checkpoints, read_state, step_of
from dragoman.training.log import read_events
from dragoman.training.settings import TrainingSettings
from dragoman.training.world import World
from dragoman.translation.model_folder import StoredModel


def test_a_result_says_what_the_last_checkpoint_and_the_log_say(trained):
    run = trained / "run"
    result, state, recipe = read_run_result(run), read_state(checkpoints(run)[-1]), read_recipe(run)
    assert result.updates == state.step == recipe.training.updates
    assert result.minutes == pytest.approx(state.seconds / 60)
    validations = [event for event in read_events(run / "log.jsonl") if event["event"] == "validation"]
    minutes = [event["minutes"] for event in validations]
    assert minutes == sorted(minutes)
    assert 0 < minutes[-1] <= result.minutes * 1.0001
    assert 60 * result.minutes >= sum(event["seconds"] for event in validations[:-1])
    best = max(validations, key=lambda event: (event["bleu"], -event["loss"]))
    assert (state.best_step, state.best["bleu"]) == (best["step"], pytest.approx(best["bleu"]))
    assert state.lowest_loss == pytest.approx(min(event["loss"] for event in validations))
    assert state.highest_bleu == pytest.approx(max(event["bleu"] for event in validations))
    assert result.candidates[result.kept] == result.validation
    assert result.validation["nll"] == min(scores["nll"] for scores in result.candidates.values())
    steps = {"best": state.best_step, "last": state.step}
    (source,) = (path for path in checkpoints(run) if step_of(path) == steps[result.kept])
    kept, expected = (load_tensors(folder / "model.safetensors") for folder in (run / "model", source))
    assert kept.keys() == expected.keys()
    assert all(torch.equal(kept[name], expected[name]) for name in kept)
    data, model = PreparedData.load(run / "data"), StoredModel.load(run / "model")
    assert model.longest_trained == max(len(data.train[pair][0]) for pair in range(len(data.train))) + 1
    assert model.languages == recipe.data.languages
    assert json.loads((run / "result.json").read_text())["model"] == result.model


@pytest.mark.parametrize("preset", ["tiny", "small"])
def test_the_time_of_a_token_is_that_of_its_products_and_of_the_rest_on_all_threads(monkeypatch, preset):
    asked = []
    monkeypatch.setattr(presets, "matrix_speed", lambda *values: asked.append(values) or 1e9 * len(asked))
    monkeypatch.setattr(presets, "cpu_threads", lambda: 3)
    for number, (threads, precision) in enumerate([(1, "float32"), (8, "bfloat16"), (None, "float32")], 1):
        speed = tokens_per_second(preset, TrainingSettings(threads=threads, precision=precision))
        assert asked[-1] == (threads or 3, precision)
        products, others = presets.OPERATIONS[preset] / (1e9 * number), presets.OVERHEAD[preset]
        assert 1 / speed == pytest.approx(products + others / (threads or 3))


def test_processes_share_the_updates_the_validations_and_the_test_data(trained, monkeypatch):
    """Their measured speed is that of one, times their number."""
    recipe, data = read_recipe(trained / "run"), PreparedData.load(trained / "run" / "data")
    one, two = (World(size=size, device=torch.device("cpu")) for size in (1, 2))
    model, batches, clock = make_model(recipe, data, one.device), make_batches(recipe, data, one), count()
    monkeypatch.setattr(autoconfigure, "TIMED_UPDATES", 2)
    monkeypatch.setattr(autoconfigure, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    speeds = [autoconfigure.updates_per_second(model, batches, recipe, world)[0] for world in (one, two)]
    assert speeds[1] == pytest.approx(2 * speeds[0])
    for module in (minutes, run_module):
        monkeypatch.setattr(module, "seconds_to_translate", lambda _, lines, settings: len(lines))
    seconds = [minutes.seconds_of_validation(model, recipe, data, world) for world in (one, two)]
    assert seconds == [len(data.valid_source), len(data.valid_source) / 2]
    lines = (trained / "scored.source").read_text().count("\n")
    assert [run_module.seconds_of_test(recipe, world) for world in (one, two)] == [lines, lines / 2]
