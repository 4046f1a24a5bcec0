"""Adaptations whose model has fewer layers than its initial model, and `distil --preset shallow`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.adaptation.fewer_layers import (
    can_leave_out_layers,
    kept_layers,
    spread,
    weights_of_layers,
)
from dragoman.pipeline.adaptation.initial_model import FEWER_LAYERS_PEAK_RATE
from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.distil import shallow_settings
from dragoman.pipeline.prepared import PreparedData, make_model
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.run import make_validate, run
from dragoman.system.errors import DragomanError
from dragoman.training.log import read_events
from dragoman.training.world import World
from dragoman.translation.model_folder import StoredModel, Tokenizers, save_model
from tests.conftest import TINY
from tests.test_distil import call

DEEP = replace(TINY, encoder_layers=3, decoder_layers=3)
TRAINING = {"updates": 2, "validate_every": 1, "checkpoint_every": 1, "precision": "float32"}


@pytest.fixture(scope="module")
def deep(trained, tmp_path_factory) -> Path:
    """A random model of 3 + 3 layers, with the vocabulary of the text in `trained`."""
    folder = tmp_path_factory.mktemp("deep") / "model"
    tokenizers = Tokenizers.load(trained / "run" / "model")
    torch.manual_seed(1)
    save_model(
        folder, build_model(DEEP, len(tokenizers.source), len(tokenizers.target)), DEEP, tokenizers, 20
    )
    return folder


def asked(trained: Path, deep: Path, out: Path, model=None, preset="auto", **adaptation) -> Recipe:
    """The recipe of a short adaptation, with other numbers of layers."""
    files = {
        f"{kind}{side}": str(trained / f"{name}.{side}")
        for kind, name in (("", "train"), ("valid_", "test"))
        for side in ("source", "target")
    }
    table = {
        "out": str(out),
        "preset": preset,
        "data": files,
        "model": model or {"decoder_layers": 1},
        "batches": {"source_tokens_per_batch": 200, "target_tokens_per_batch": 200},
        "training": TRAINING,
        "adaptation": {"initial_model": str(deep)} | adaptation,
    }
    return complete_recipe(table, "recipe.toml", lambda recipe: recipe, lambda: False)


@pytest.mark.parametrize("depth", range(1, 13))
def test_kept_layers_are_in_order_with_the_first_one_and_as_far_apart_as_possible(depth):
    for kept in range(1, depth + 1):
        layers = spread(kept, depth)
        gaps = np.diff(layers)
        assert layers[0] == 0
        assert kept == 1 or layers[-1] == depth - 1
        assert len(set(layers)) == kept
        assert not len(gaps) or gaps.max() - gaps.min() <= 1


def test_all_layers_are_all_weights(deep):
    weights = StoredModel.load(deep).weights
    assert kept_layers(DEEP, DEEP) == {}
    assert weights_of_layers(weights, DEEP, DEEP) == weights


def test_weights_are_those_of_the_kept_layers_by_their_new_numbers(deep):
    model = replace(DEEP, encoder_layers=2, decoder_layers=1)
    weights = StoredModel.load(deep).weights
    found = weights_of_layers(weights, DEEP, model)
    vocabulary = len(weights["target_embedding.weight"])
    assert found.keys() == dict(build_model(model, vocabulary, vocabulary).named_parameters()).keys()
    for name, weight in found.items():
        old = name.replace("encoder.1.", "encoder.2.")
        assert weight is weights[old]


def test_an_adaptation_begins_with_the_kept_layers_and_trains_the_others(trained, deep, tmp_path, messages):
    recipe = asked(trained, deep, tmp_path / "out", freeze=["encoder"])
    run(recipe)
    before, after = StoredModel.load(deep), StoredModel.load(tmp_path / "out")
    assert after.settings == replace(DEEP, decoder_layers=1)
    assert after.tokenizers == before.tokenizers
    assert f"Initial model: {deep}; its tokenizers and settings are kept, but not all layers." in messages
    assert "Layer 1 of the 3 decoder layers is kept." in messages
    assert any(
        f"a peak learning rate of {FEWER_LAYERS_PEAK_RATE:g}, since layers are left out" in line
        for line in messages
    )
    initial = weights_of_layers(before.weights, DEEP, after.settings)
    for name, weight in after.weights.items():
        assert np.array_equal(weight, initial[name]) == name.startswith("encoder."), name
    data = PreparedData.load(tmp_path / "out" / "data")
    model = make_model(read_recipe(tmp_path / "out"), data, torch.device("cpu"))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(torch.from_numpy(initial[name]))
    expected, _ = make_validate(recipe, data, World(device=torch.device("cpu")))(model, "")
    first = read_events(tmp_path / "out" / "log.jsonl")[0]
    assert {name: first[name] for name in expected} == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("model", "adaptation", "message"),
    [
        ({"decoder_layers": 4}, {}, "decoder_layers is 4, and the initial model in .* has 3, which is kept"),
        ({"encoder_layers": 1}, {"lora_rank": 2}, "encoder_layers is 1, and the initial model in .* has 3,"),
        ({"decoder_layers": 1, "d_model": 8}, {}, "d_model is 8, and the initial model in .* has 16, which"),
    ],
)
def test_more_layers_other_widths_and_adapters_of_fewer_layers_are_refused(
    trained, deep, tmp_path, model, adaptation, message
):
    with pytest.raises(DragomanError, match=message):
        asked(trained, deep, tmp_path / "out", model, **adaptation)
    assert not (tmp_path / "out").exists()


def test_the_layers_of_an_lstm_are_kept(trained, tmp_path):
    tokenizers = Tokenizers.load(trained / "run" / "model")
    sizes = len(tokenizers.source), len(tokenizers.target)
    lstm = ModelSettings("lstm", d_model=8, encoder_layers=2, decoder_layers=2)
    save_model(tmp_path / "lstm", build_model(lstm, *sizes), lstm, tokenizers, 20)
    with pytest.raises(DragomanError, match=r"decoder_layers is 1, and the initial model in .*lstm has 2"):
        asked(trained, tmp_path / "lstm", tmp_path / "out")


def test_dilated_convolutions_are_kept():
    assert not can_leave_out_layers(ModelSettings("conv", dilated=True, positions="learned"))


def test_the_same_recipe_continues_a_run_with_fewer_layers(trained, deep, tmp_path, monkeypatch):
    """A preset is compared with the initial model, and not with the layers that are left."""
    monkeypatch.setitem(PRESETS, "tiny", DEEP)
    recipe = asked(trained, deep, tmp_path / "out", preset="tiny")
    run(recipe)
    assert asked(trained, deep, tmp_path / "out", preset="tiny").model == recipe.model
    with pytest.raises(DragomanError, match="decoder_layers"):
        run(asked(trained, deep, tmp_path / "out", {"decoder_layers": 2}))


@pytest.mark.parametrize(("layers", "head"), [(1, None), (2, 2), (3, 2)])
def test_the_alignment_head_is_that_of_the_last_layer_if_it_is_kept(trained, tmp_path, layers, head):
    tokenizers = Tokenizers.load(trained / "run" / "model")
    sizes = len(tokenizers.source), len(tokenizers.target)
    guided = replace(DEEP, alignment_head=2)
    save_model(tmp_path / "guided", build_model(guided, *sizes), guided, tokenizers, 20)
    recipe = asked(trained, tmp_path / "guided", tmp_path / "out", {"decoder_layers": layers})
    assert recipe.model.alignment_head == head
    given = {"decoder_layers": layers, "alignment_head": 1}
    assert asked(trained, tmp_path / "guided", tmp_path / "out", given).model.alignment_head == 1


@pytest.mark.parametrize("teacher", [ModelSettings("lstm"), replace(DEEP, decoder_layers=1)])
def test_a_teacher_without_layers_to_leave_out_has_no_shallow_student(teacher):
    with pytest.raises(DragomanError, match=r"has none that can be left out; choose preset student\."):
        shallow_settings(teacher)


def test_a_shallow_student_is_its_teacher_with_one_decoder_layer(
    trained, deep, tmp_path, monkeypatch, capsys
):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in TRAINING.items()]
    valid = [f"--valid-{side}={trained / f'test.{side}'}" for side in ("source", "target")]
    text = tmp_path / "text"
    lines = (trained / "train.source").read_text().splitlines(keepends=True)
    text.write_text("".join(lines[:40]))
    command = deep, "--data", text, "--preset", "shallow", "--out", tmp_path / "student", *options, *valid
    status, said = call(monkeypatch, capsys, *command)
    assert status == 0, said
    assert "Layer 1 of the 3 decoder layers is kept." in said
    stored, teacher = StoredModel.load(tmp_path / "student"), StoredModel.load(deep)
    assert (stored.settings, stored.tokenizers) == (replace(DEEP, decoder_layers=1), teacher.tokenizers)
    assert len((tmp_path / "student" / "distilled.txt").read_text().splitlines()) == 40
    status, said = call(monkeypatch, capsys, *command)
    assert status == 0
    assert "is finished." in said
    result = json.loads((tmp_path / "student" / "result.json").read_text())
    assert result
    for option, value, kept in (("d_model", 8, 16), ("vocabulary", 9, len(teacher.tokenizers.target))):
        change = f"--{option.replace('_', '-')}={value}"
        status, said = call(monkeypatch, capsys, *command[:-6], "--out", tmp_path / "wide", change)
        assert status == 2
        named = option.replace("d_model", "--d-model")
        assert f"{named} is {value}, and the initial model in {deep} has {kept}, which is kept" in said
        assert not (tmp_path / "wide").exists()
