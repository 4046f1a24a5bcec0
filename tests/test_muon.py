"""Muon: its steps for matrices, beside Adam for all other weights."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dragoman.model.build import build_model
from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Preset, Recipe, check_recipe, optimizer_of
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import OptionError
from dragoman.text.settings import DataSettings
from dragoman.training import muon
from dragoman.training.muon import MOMENTUM, STEP_SIZE, Muon, linear_weights, orthogonal
from dragoman.training.objective import make_optimizer, step_optimizer
from dragoman.training.settings import Optimizer, TrainingSettings
from tests.conftest import MODELS

SIZES = st.integers(1, 12)


def random_matrices(count, rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, rows, columns, generator=generator, dtype=torch.float64)


@given(st.integers(1, 3), SIZES, SIZES, st.integers(0, 10**6), st.sampled_from([1e-12, 1.0, 1e12]))
def test_the_polynomial_is_applied_to_the_singular_values_and_no_vector_changes(
    count, rows, columns, seed, size
):
    given_matrices = size * random_matrices(count, rows, columns, seed)
    left, values, right = torch.linalg.svd(given_matrices, full_matrices=False)
    values = values / values.norm(dim=-1, keepdim=True)
    a, b, c = muon.COEFFICIENTS
    for _ in range(muon.ITERATIONS):
        values = a * values + b * values**3 + c * values**5
    expected = left @ torch.diag_embed(values) @ right
    torch.testing.assert_close(orthogonal(given_matrices), expected, rtol=1e-6, atol=1e-6)


@given(st.integers(2, 12), st.floats(0.05, 1.0), st.integers(0, 10**6))
def test_singular_values_come_near_1_and_those_of_0_stay(size, smallest, seed):
    left, _, right = torch.linalg.svd(random_matrices(1, size, size, seed))
    values = torch.linspace(smallest, 1.0, size, dtype=torch.float64)
    found = torch.linalg.svdvals(orthogonal(left @ torch.diag(values) @ right))
    assert ((found > 0.6) & (found < 1.3)).all()
    assert orthogonal(torch.zeros(1, size, 3)).count_nonzero() == 0


def with_gradients(name, seed):
    torch.manual_seed(seed)
    model = build_model(MODELS[name], 20, 20)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    return model


@pytest.mark.parametrize("name", sorted(MODELS))
def test_matrices_are_stepped_one_by_one_and_all_other_weights_by_adam(name, monkeypatch):
    """The oracle is the definition at the top of the file, with a decomposition instead of iterations."""

    def exact(given_matrices):
        left, _, right = torch.linalg.svd(given_matrices.float(), full_matrices=False)
        return left @ right

    monkeypatch.setattr(muon, "orthogonal", exact)
    model, adam_model = with_gradients(name, 0), with_gradients(name, 0)
    optimizer, adam = Muon(model), make_optimizer(adam_model)
    optimizer.number_type = torch.float32
    expected = {key: weight.detach().clone() for key, weight in model.named_parameters()}
    moments = {key: torch.zeros_like(weight) for key, weight in expected.items()}
    linear = {f"{key}.weight" for key, module in model.named_modules() if isinstance(module, nn.Linear)}
    heights = {
        key: attention.widths
        for key, attention in model.named_modules()
        if isinstance(attention, muon.MultiHeadAttention)
    }
    for step in range(1, 4):
        for (key, weight), other in zip(model.named_parameters(), adam_model.parameters(), strict=True):
            weight.grad = torch.randn_like(weight)
            other.grad = weight.grad.clone()
            if key not in linear:
                continue
            moments[key] = MOMENTUM * moments[key] + (1 - MOMENTUM) * weight.grad
            direction = MOMENTUM * moments[key] + (1 - MOMENTUM) * weight.grad
            parts = heights.get(key.removesuffix(".query_key_value.weight"), [len(weight)])
            rows = [
                0.01 / step * STEP_SIZE * max(part.shape) ** 0.5 * exact(part)
                for part in direction.split(parts)
            ]
            expected[key] -= torch.cat(rows)
        step_optimizer(optimizer, model, 0.01 / step, 0.0)
        step_optimizer(adam, adam_model, 0.01 / step, 0.0)
    for (key, weight), other in zip(model.named_parameters(), adam_model.parameters(), strict=True):
        if key in linear:
            torch.testing.assert_close(weight.detach(), expected[key], rtol=1e-4, atol=1e-5)
        else:
            assert torch.equal(weight, other), key


def test_a_gradient_that_is_not_finite_changes_nothing():
    model = with_gradients("transformer", 0)
    optimizer = Muon(model)
    step_optimizer(optimizer, model, 0.01, 0.0)
    before = [weight.detach().clone() for weight in model.parameters()]
    moments = [state["momentum"].clone() for state in optimizer.state.values() if "momentum" in state]
    next(iter(optimizer.matrices)).grad[0, 0] = torch.inf
    step_optimizer(optimizer, model, 0.01, 0.0)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True))
    after = [state["momentum"] for state in optimizer.state.values() if "momentum" in state]
    assert len(after) == len(linear_weights(model))
    assert all(torch.equal(one, other) for one, other in zip(after, moments, strict=True))


def test_all_gradients_are_forgotten_and_weights_without_one_stay():
    model = with_gradients("transformer", 0)
    optimizer = Muon(model)
    optimizer.zero_grad()
    assert all(weight.grad is None for weight in model.parameters())
    before = [weight.detach().clone() for weight in model.parameters()]
    optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("preset", get_args(Preset))
def test_only_a_new_tiny_model_with_pre_norm_has_muon_by_default(preset):
    recipe = Recipe(preset=preset, model=PRESETS.get(preset, ModelSettings()))
    assert optimizer_of(recipe) == ("muon" if preset == "tiny" else "adam")
    others = (
        replace(recipe, adaptation=AdaptationSettings(initial_model=Path("a"))),
        replace(recipe, model=replace(recipe.model, norm="post")),
        replace(recipe, training=TrainingSettings(shard=True)),
        replace(recipe, training=TrainingSettings(precision="float32")),
    )
    for other in others:
        assert optimizer_of(other) == "adam"
    for optimizer in get_args(Optimizer):
        for other in (recipe, *others[:2]):
            chosen = replace(other, training=TrainingSettings(optimizer=optimizer))
            assert optimizer_of(chosen) == optimizer


@pytest.mark.parametrize(
    ("table", "setting", "value"), [("training", "shard", True), ("adaptation", "lora_rank", 2)]
)
def test_what_needs_another_optimizer_is_refused(table, setting, value, tmp_path):
    data = DataSettings(source=tmp_path / "a", target=tmp_path / "b")
    recipe = Recipe(out=tmp_path, data=data)
    for optimizer in ("muon", "adam", None):
        training = replace(recipe.training, optimizer=optimizer)
        changed = replace(recipe, training=training)
        changed = replace(changed, **{table: replace(getattr(changed, table), **{setting: value})})
        if optimizer == "muon":
            with pytest.raises(OptionError, match="muon"):
                check_recipe(changed)
        else:
            check_recipe(changed)
