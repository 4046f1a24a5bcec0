"""One update of the weights (section 5): the gradient, clipping, Adam, random numbers; and validation."""

import pytest
import torch
from torch import nn

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.text.batches import Batch, Update
from dragoman.training.gradient_norms import gradient_norms_by_layer
from dragoman.training.objective import (
    Objective,
    accumulate_gradients,
    corpus_loss,
    make_optimizer,
    seed_update,
    step_optimizer,
)
from dragoman.training.settings import TrainingSettings
from dragoman.training.world import World
from tests.conftest import MODELS

HERE = World(device=torch.device("cpu"))


def linear_with_gradient(scale=1.0):
    torch.manual_seed(0)
    model = nn.Linear(5, 4)
    for weight in model.parameters():
        weight.grad = scale * torch.randn_like(weight)
    return model


def test_updates_are_those_of_adam_with_the_papers_constants():
    """Kingma and Ba (2015), algorithm 1, with β₁ = 0.9, β₂ = 0.98 and ε = 10⁻⁹."""
    torch.manual_seed(0)
    model = nn.Linear(5, 4)
    optimizer = make_optimizer(model)
    weights = [weight.detach().double() for weight in model.parameters()]
    first, second = (
        [torch.zeros_like(weight) for weight in weights],
        [torch.zeros_like(weight) for weight in weights],
    )
    for step in range(1, 7):
        rate = 0.01 / step
        for weight, size in zip(
            model.parameters(), (1e-9, 1e-3), strict=True
        ):  # ε counts beside gradients near it
            weight.grad = size * torch.randn_like(weight)
        gradients = [weight.grad.double() for weight in model.parameters()]
        step_optimizer(optimizer, model, rate, 0.0)
        for number, gradient in enumerate(gradients):
            first[number] = 0.9 * first[number] + 0.1 * gradient
            second[number] = 0.98 * second[number] + 0.02 * gradient**2
            mean, variance = first[number] / (1 - 0.9**step), second[number] / (1 - 0.98**step)
            weights[number] -= rate * mean / (variance.sqrt() + 1e-9)
        for weight, expected in zip(model.parameters(), weights, strict=True):
            torch.testing.assert_close(weight.detach().double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 100.0])
def test_gradients_are_scaled_to_the_greatest_norm_and_no_further(clip_norm):
    model = linear_with_gradient()
    before = [weight.grad.clone() for weight in model.parameters()]
    optimizer = make_optimizer(model)
    norm = float(torch.cat([gradient.flatten() for gradient in before]).norm())
    assert 0.5 < norm < 100
    assert float(step_optimizer(optimizer, model, 0.01, clip_norm)) == pytest.approx(norm)
    factor = 0.5 / norm if clip_norm == 0.5 else 1.0
    for weight, gradient in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(weight.grad, factor * gradient, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_is_not_finite_changes_no_weight():
    model = linear_with_gradient()
    model.bias.grad[1] = torch.nan
    before = [weight.detach().clone() for weight in model.parameters()]
    optimizer = make_optimizer(model)
    assert step_optimizer(optimizer, model, 0.1, 0.0).isnan()
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), before, strict=True))


def test_every_update_process_and_seed_draws_masks_of_its_own():
    masks = {}
    for seed in (1, 2):
        for step in (1, 2, 3):
            for rank in (0, 1):
                seed_update(seed, step, rank)
                masks[seed, step, rank] = nn.functional.dropout(torch.ones(64), 0.5)
    assert len({tuple(mask.tolist()) for mask in masks.values()}) == len(masks)
    seed_update(1, 2, 1)
    assert torch.equal(nn.functional.dropout(torch.ones(64), 0.5), masks[1, 2, 1])


def small_model(dropout=0.0):
    torch.manual_seed(0)
    settings = ModelSettings(
        d_model=16, d_ff=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=dropout
    )
    return build_model(settings, 11, 11)


def batches():
    """Batches of different sizes, the last of one pair."""
    generator = torch.Generator().manual_seed(2)
    result = []
    for pairs in (5, 3, 1):
        source, target = torch.randint(4, 11, (2, pairs, 6), generator=generator)
        target[:, -1] = END
        if pairs > 1:
            target[0, 3:] = torch.tensor([END, PAD, PAD])
        result.append(Batch.of(source, target, list(range(pairs))))
    return result


def test_the_gradient_of_an_update_is_that_of_the_mean_over_all_its_tokens():
    objective = Objective(small_model(), 0.1, bfloat16=False).train()
    tokens = sum(batch.tokens for batch in batches())
    sums = accumulate_gradients(objective, Update(0, 3, batches(), tokens), HERE)
    weights = list(objective.parameters())
    losses, likelihoods = zip(*(objective(batch) for batch in batches()), strict=True)
    expected = torch.autograd.grad(sum(losses) / tokens, weights)
    for weight, gradient in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-4, atol=1e-6)
    assert sums.tolist() == pytest.approx([sum(losses).item(), sum(likelihoods).item()], rel=1e-5)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_objective_is_that_of_the_settings(native, precision):
    settings = TrainingSettings(label_smoothing=0.25, precision=precision, native=native)
    objective = Objective.of(small_model(), settings)
    replaced = {type(module).__module__.startswith("dragoman.native.") for module in objective.modules()}
    assert (True in replaced) == native
    assert objective.in_bfloat16 == (precision == "bfloat16")
    assert objective.cross_entropy.smoothing == 0.25


@pytest.mark.parametrize("kind", MODELS)
def test_the_norms_of_layers_are_parts_of_the_norm_of_the_gradient(kind):
    """A layer is the first part of a weight's name, with its number if there is one."""
    model = build_model(MODELS[kind], 11, 11)
    weights = dict(model.named_parameters())
    for number, weight in enumerate(weights.values()):
        weight.grad = torch.randn_like(weight) if number % 5 else None
    squares: dict[str, float] = {}
    for name, weight in weights.items():
        first, second, *_ = [*name.split("."), ""]
        if weight.grad is not None:
            layer = f"{first}.{second}" if second.isdecimal() else first
            squares[layer] = squares.get(layer, 0.0) + weight.grad.double().square().sum().item()
    found = {name: norm.item() ** 2 for name, norm in gradient_norms_by_layer(model).items()}
    assert found == pytest.approx(squares, rel=1e-4)


def test_padding_changes_neither_loss_nor_likelihood():
    objective = Objective(small_model().double(), 0.1, bfloat16=False)
    batch = batches()[0]
    together, alone = torch.stack(objective(batch)), torch.zeros(2, dtype=torch.float64)
    for source, padded in zip(batch.source, batch.target_out, strict=True):
        target = padded[padded != PAD]
        alone += torch.stack(objective(Batch.of(source[None], target[None], [0])))
    torch.testing.assert_close(together, alone)


def test_the_loss_in_bfloat16_is_near_that_in_float32():
    model, batch = small_model(), batches()[0]
    exact, rounded = (Objective(model, 0.1, bfloat16)(batch)[0].item() for bfloat16 in (False, True))
    assert rounded == pytest.approx(exact, rel=0.01)


def test_validation_is_the_mean_over_all_tokens_of_all_batches_without_dropout():
    model = small_model(dropout=0.5)
    objective = Objective(model, 0.1, bfloat16=False).train()
    scores = corpus_loss(objective, iter(batches()), HERE)
    assert objective.training
    objective.eval()
    corpus_loss(objective, iter(batches()), HERE)
    assert not objective.training
    with torch.no_grad():
        sums = torch.tensor([[float(part) for part in objective(batch)] for batch in batches()]).sum(0)
    tokens = sum(batch.tokens for batch in batches())
    assert scores["loss"] == pytest.approx(float(sums[0]) / tokens, rel=1e-5)
    assert scores["nll"] == pytest.approx(float(sums[1]) / tokens, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(float((sums[1] / tokens).exp()), rel=1e-5)
    undropped = Objective(small_model(), 0.1, bfloat16=False)  # the same weights
    assert corpus_loss(undropped, batches(), HERE)["loss"] == pytest.approx(scores["loss"], rel=1e-5)
    unsmoothed = corpus_loss(Objective(model, 0.0, bfloat16=False), batches(), HERE)
    assert unsmoothed["loss"] == pytest.approx(scores["nll"], rel=1e-5) != scores["loss"]
