"""Adapting an initial model to new text: what stays, what changes, what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from dragoman.evaluation.metrics import bleu
from dragoman.interop import huggingface
from dragoman.pipeline.adapt import CHANGEABLE
from dragoman.pipeline.prepare import PreparedData, make_model
from dragoman.pipeline.recipe import Recipe, complete_recipe, read_recipe
from dragoman.pipeline.replay import repetitions
from dragoman.pipeline.run import make_validate, run
from dragoman.system.errors import DragomanError
from dragoman.system.messages import silent
from dragoman.training.interrupt import TrainingInterruptedError
from dragoman.training.log import read_events
from dragoman.training.world import World
from dragoman.translation.model_folder import StoredModel, read_about
from dragoman.translation.translator import Translator
from tests.conftest import write_copies

HERE = World(device=torch.device("cpu"))
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory) -> Path:
    """New text: the words of the trained model backwards, so that what is learnt differs from what is known."""
    folder = tmp_path_factory.mktemp("adapt")
    for name, lines, seed in (("new", 60, 5), ("valid", 6, 6)):
        source, target = write_copies(folder, name, lines, seed)
        reverse = [" ".join(reversed(line.split())) for line in target.read_text().splitlines()]
        target.write_text("".join(f"{line}\n" for line in reverse))
    return folder


def table(trained: Path, folder: Path, out: Path, adaptation=None, **training) -> dict:
    """The recipe of a short adaptation, as a file would have it."""
    defaults = {"updates": 4, "validate_every": 2, "checkpoint_every": 2, "precision": "float32", "log_every": 1}
    return {
        "out": str(out),
        "data": {
            "source": str(folder / "new.source"),
            "target": str(folder / "new.target"),
            "valid_source": str(folder / "valid.source"),
            "valid_target": str(folder / "valid.target"),
        },
        "batches": {"source_tokens_per_batch": 100, "target_tokens_per_batch": 100},
        "training": defaults | training,
        "adaptation": {"initial_model": str(trained / "run")} | (adaptation or {}),
    }


def complete(asked: dict) -> Recipe:
    return complete_recipe(asked, "adapt.toml", lambda recipe: recipe, lambda: False, silent)


def adapt(*arguments, **training) -> Path:
    return run(complete(table(*arguments, **training)), silent)


def weights(folder: Path) -> dict[str, np.ndarray]:
    return load_file(folder / "model.safetensors")


def last_checkpoint(out: Path) -> Path:
    return max((out / "checkpoints").iterdir())


@pytest.fixture(scope="module")
def adapted(trained, folder, unchecked_shapes) -> Path:
    """An adaptation with replay and frozen embeddings; read only."""
    old = [str(trained / f"train.{side}") for side in ("source", "target")]
    return adapt(trained, folder, folder / "adapted", {"replay": old, "freeze": ["embeddings", "encoder.0"]})


def test_tokenizers_settings_and_languages_are_kept(trained, adapted):
    before, after = (StoredModel.load(path) for path in (trained / "run", adapted))
    assert after.tokenizers == before.tokenizers
    assert after.settings == before.settings
    assert after.languages == before.languages
    assert read_recipe(adapted).tokenizer == read_recipe(trained / "run").tokenizer


def test_update_0_has_the_scores_of_the_initial_model(trained, adapted):
    recipe, data = read_recipe(adapted), PreparedData.load(adapted / "data")
    model = make_model(recipe, data, HERE.device)
    model.load_state_dict({name: torch.from_numpy(each) for name, each in initial_weights(trained).items()}, False)
    expected, _ = make_validate(recipe, data, silent, HERE)(model, "")
    first = read_events(adapted / "log.jsonl")[0]
    assert (first["event"], first["step"]) == ("validation", 0)
    assert {name: first[name] for name in expected} == pytest.approx(expected, abs=1e-4)
    translator = Translator.load(trained / "run")
    lines = (adapted / "data" / "valid.source.txt").read_text().splitlines()
    references = (adapted / "data" / "valid.target.txt").read_text().splitlines()
    greedy = translator.translate(lines, beam_size=1)
    assert first["bleu"] == pytest.approx(bleu(greedy, references).value, abs=1e-3)


def initial_weights(trained: Path) -> dict[str, np.ndarray]:
    return weights(trained / "run" / "model")
