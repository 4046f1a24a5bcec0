"""What a finished run says of itself, beside its checkpoints and its log."""

import json

import pytest
import torch

from dragoman.model.weights import load_tensors
from dragoman.pipeline.prepared import PreparedData
from dragoman.pipeline.recipe import read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.training.checkpoint import checkpoints, read_state, step_of
from dragoman.training.log import read_events
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
