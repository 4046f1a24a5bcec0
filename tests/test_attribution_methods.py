"""Each further method of attribution keeps the law by which it is defined."""

import math
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.inspection.analyse import path_attribution, perturbation_attribution
from dragoman.inspection.analyse.attributed import Attributed, differentiable, of_embeddings
from dragoman.inspection.analyse.attribution import attribute, contributions
from dragoman.inspection.analyse.methods import METHODS, OF_TOKENS
from dragoman.inspection.analyse.path_attribution import (
    BASELINES,
    FIRST_PARTS,
    HALVINGS,
    MAX_PARTS,
    POINTS_OF_PART,
    SEED,
    TOLERANCE,
    between,
    deeplift,
    discretized_integrated_gradients,
    gradient_shap,
    integrated_gradients,
    random_inputs,
    rescaled,
    sequential_integrated_gradients,
    token_path,
)
from dragoman.inspection.analyse.perturbation_attribution import (
    PROBES,
    SAMPLES,
    SAMPLES_PER_TOKEN,
    lime,
    masked_log_probs,
    occlusion,
    reagent,
)
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import ACTIVATIONS, FeedForward
from dragoman.system.errors import DragomanError
from dragoman.system.futures import interruption
from tests.conftest import KINDS, MODELS
from tests.test_inspection import LINES, translator_of


@pytest.fixture(scope="module", params=KINDS)
def of(request):
    """The log-probabilities of a translation as a function of the embeddings of both sides."""
    translator = translator_of(MODELS[request.param])
    sides = translator.tokenizers.source, translator.tokenizers.target
    source, target = (
        torch.tensor([*side.encode([line])[0], END])[None]
        for side, line in zip(sides, LINES[1:3], strict=True)
    )
    return of_embeddings(differentiable(translator.torch_backend.model), source, target, with_prefix=True)


def assert_close(found, expected, atol):
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=0, atol=atol)


def test_gradients_end_after_an_interruption(of, monkeypatch):
    monkeypatch.setattr("dragoman.inspection.analyse.attributed.GRADIENTS", 1)
    interrupted = Event()
    before = interruption.set(interrupted)
    try:
        gradients = of.gradients(of.inputs[None])
        next(gradients)
        interrupted.set()
        with pytest.raises(CancelledError):
            next(gradients)
    finally:
        interruption.reset(before)


@pytest.mark.short_form(1)
def test_sequential_integrals_are_what_one_token_changes(of):
    assert_close(sequential_integrated_gradients(of, 12), occlusion(of), 0.1)


@pytest.mark.short_form(1)
def test_of_one_token_sequential_integrals_are_integrals(of):
    one = replace(of, baseline=torch.cat([of.baseline[:1], of.inputs[1:]]))
    found = sequential_integrated_gradients(one, 8)
    assert_close(found[:, :1], integrated_gradients(one, 8)[:, :1], 1e-5)
    assert_close(found[:, 1:], torch.zeros_like(found[:, 1:]), 1e-6)


@pytest.mark.short_form(1)
def test_gradient_shap_sums_to_the_difference_from_random_sentences(of):
    random = random_inputs(of, BASELINES, torch.Generator().manual_seed(SEED))
    with torch.no_grad():
        change = of.log_probs(of.inputs[None])[0] - of.log_probs(random).mean(0)
    assert_close(gradient_shap(of, 32).sum(1), change, 0.15)


def test_random_inputs_are_embeddings_of_all_tokens_but_symbols(of):
    vectors = of.model.source_embedding(torch.arange(of.model.source_embedding.num_embeddings))
    random = random_inputs(of, 64, torch.Generator().manual_seed(0))[:, : of.source.size(1)]
    drawn = {int((vectors == each).all(1).nonzero()[0]) for each in random.flatten(0, 1).detach()}
    assert drawn.isdisjoint({PAD, START, END})
    assert len(drawn) > 10


def test_a_path_of_tokens_leads_to_the_baseline_feature_by_feature(of):
    embedding = of.model.source_embedding
    for token in of.source[of.source > END].tolist():
        path = token_path(embedding, token, of.baseline[0], 12)
        assert path.shape == (12, of.inputs.size(1))
        assert torch.equal(path[0], of.baseline[0])
        assert torch.equal(path[-1], embedding(torch.tensor(token)).detach())
        steps = (path[1:] - path[:-1]) * path[-1].sign()  # away from 0
        assert (steps >= -1e-6).all()
        assert len(path.unique(dim=0)) > 4


def test_symbols_jump_from_the_baseline(of):
    for token in (UNKNOWN, END):
        path = token_path(of.model.target_embedding, token, of.baseline[0], 6)
        assert torch.equal(path[0], of.baseline[0])
        assert all(torch.equal(each, path[-1]) for each in path[1:])


def test_a_path_of_two_tokens_ends():
    """After the last token, the path stays at the baseline."""
    embedding = nn.Embedding(6, 2)
    with torch.no_grad():
        embedding.weight[:] = torch.tensor([[0, 0], [0, 0], [0, 0], [0, 0], [4.0, 4], [1, 3]])
    path = token_path(embedding, 4, torch.zeros(2), 5)
    np.testing.assert_array_equal(path.detach(), [[0, 0], [0, 0], [0, 0], [1, 3], [4, 4]])


def test_features_between_two_points_stay():
    found = between(torch.tensor([[1.0, 5, -1, 2]]), torch.zeros(4), torch.tensor([2.0, 4, -2, -2]), 4)
    np.testing.assert_array_equal(found, [[1, 3, -1, -1.5]])


@pytest.mark.parametrize("activation", ACTIVATIONS.values())
def test_slopes_between_two_points_sum_to_the_difference(activation):
    torch.manual_seed(0)
    first, last = nn.Linear(5, 7), nn.Linear(7, 1)
    rows = torch.randn(2, 5, requires_grad=True)
    values = last(rescaled(activation)(first(rows)))
    assert torch.equal(values, last(activation(first(rows))))
    (gradient,) = torch.autograd.grad(values.sum(), rows)
    assert_close(gradient[1] @ (rows[1] - rows[0]), (values[1] - values[0])[0], 1e-5)
    assert torch.equal(gradient[0], gradient[1])


def test_where_nothing_changes_the_slope_is_the_gradient():
    rows = torch.tensor([[-1.0, 2.0], [-1.0, 2.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(rescaled(torch.nn.functional.relu)(rows).sum(), rows)
    assert gradient.tolist() == [[0, 1], [0, 1]]


def test_deeplift_needs_feed_forward_sub_layers_and_leaves_them_as_they_are(of):
    layers = [module for module in of.model.modules() if isinstance(module, FeedForward)]
    if not layers:
        with pytest.raises(DragomanError, match="DeepLIFT is for models with feed-forward sub-layers"):
            deeplift(of)
        return
    before = [layer.activation for layer in layers]
    found = deeplift(of)
    assert [layer.activation for layer in layers] == before
    gradients = of.contributions(of.inputs[None], of.inputs[None])
    assert found.shape == gradients.shape
    assert (found - gradients).abs().max() > 1e-4


@dataclass(frozen=True)
class OneFeedForward(Attributed):
    """Log-probabilities that are linear but for one feed-forward sub-layer on the sum of the inputs."""

    def features(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T D"]:
        return self.model(rows.sum(1)[:, None]).expand(-1, self.target.size(1), -1)

    def log_probs_of(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T"]:
        return features[:, torch.arange(features.size(1)), torch.arange(features.size(1))]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_deeplift_sums_to_the_difference_if_all_else_is_linear(activation):
    torch.manual_seed(1)
    inputs, baseline = torch.randn(2, 4, 6, dtype=torch.float64)
    layer = FeedForward(ModelSettings(d_model=6, d_ff=9, activation=activation)).double()
    for of in (
        OneFeedForward(layer, torch.ones(1, 4, dtype=int), torch.ones(1, 5, dtype=int), layer, *pair)
        for pair in ((inputs, baseline), (baseline, inputs))
    ):
        change = (of.log_probs(of.inputs[None]) - of.log_probs(of.baseline[None]))[0]
        found = deeplift(of)
        assert_close(found.sum(1), change, 1e-12)
        unchanged = replace(of, baseline=torch.cat([of.inputs[:1], of.baseline[1:]]))
        assert_close(deeplift(unchanged)[:, 0], torch.zeros(5), 0)


@dataclass(frozen=True)
class Linear(Attributed):
    """Log-probabilities that are sums over the features, with a weight for each token."""

    def features(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T D"]:
        return (rows.sum(2) @ weights(self).T)[..., None]

    def log_probs_of(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T"]:
        return features[..., 0] - 1


def weights(of):
    """A weight for each target token and each token that it reads."""
    found = torch.randn(of.target.size(1), len(of.inputs), generator=torch.Generator().manual_seed(0))
    for token, row in enumerate(found):
        row[of.read(token) :] = 0
    return found.to(of.inputs)


@pytest.mark.parametrize(
    "method",
    [
        lambda of: integrated_gradients(of, 1),
        lambda of: sequential_integrated_gradients(of, 1),
        lambda of: discretized_integrated_gradients(of, 8),
        occlusion,
        lime,
    ],
)
def test_of_a_linear_function_all_methods_find_the_weights(of, method):
    found = method(Linear(**vars(of)))
    assert_close(found, (weights(of) * of.inputs.sum(1)).to(found), 1e-4)


def test_of_a_linear_function_gradient_shap_finds_the_distance_from_the_mean(of):
    mean = random_inputs(of, BASELINES, torch.Generator().manual_seed(SEED)).mean(0)
    expected = weights(of) * (of.inputs - mean).sum(1)
    assert_close(gradient_shap(Linear(**vars(of)), 1), expected, 1e-4)


@dataclass(frozen=True)
class OneToken(Attributed):
    """The target token is likely as long as one source token is there."""

    place: int = 0

    def features(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T D"]:
        there = (rows[:, self.place] == self.inputs[self.place]).all(1)
        return there.float()[:, None, None].expand(-1, self.target.size(1), 1)

    def all_log_probs(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T V"]:
        odds = torch.zeros(*features.shape[:2], self.model.target_embedding.num_embeddings)
        odds[:, torch.arange(self.target.size(1)), self.target[0]] = 20 * features[..., 0] - 10
        return odds.log_softmax(2)


@pytest.mark.parametrize("place", [0, 2])
def test_reagent_finds_the_token_that_counts(of, place):
    shares = reagent(OneToken(**vars(of), place=place))
    assert (shares.argmax(1) == place).all()


@pytest.mark.short_form(1)
def test_reagent_gives_shares(of):
    shares = reagent(of, most_steps=3)
    assert (shares >= 0).all()
    assert_close(shares.sum(1), torch.ones(len(shares)), 1e-5)
    assert all((row[of.read(token) :] == 0).all() for token, row in enumerate(shares))


@pytest.mark.long
def test_a_method_alone_gives_what_it_gives_among_others():
    translator = translator_of(MODELS["transformer"])
    word = LINES[1].split()[0]
    together = attribute(translator, word, word, 4, True, methods=METHODS)
    assert [*together.contributions] == [*METHODS]
    for method in METHODS[::-1]:
        alone = attribute(translator, word, word, 4, True, methods=[method])
        np.testing.assert_array_equal(alone.of(method), together.of(method))


def test_reagent_has_no_contrast():
    translator = translator_of(MODELS["transformer"])
    with pytest.raises(DragomanError, match="ReAGent measures how far the probability of a target token fal"):
        attribute(translator, LINES[1], LINES[3], methods=["reagent"], contrast=True)


@pytest.mark.parametrize("method", sorted(OF_TOKENS))
def test_a_method_of_tokens_has_no_layer(method):
    translator = translator_of(MODELS["transformer"])
    with pytest.raises(DragomanError, match=f"The method {method} replaces tokens by others, so it cannot"):
        attribute(translator, LINES[1], LINES[3], methods=[method], layer=1)


# ---- points, samples and probes


def of_lines(source_line, target_line):
    """A translation by the Transformer as a function of the embeddings of both sides."""
    translator = translator_of(MODELS["transformer"])
    sides = translator.tokenizers.source, translator.tokenizers.target
    source, target = (
        torch.tensor([*side.encode([line])[0], END])[None]
        for side, line in zip(sides, (source_line, target_line), strict=True)
    )
    return of_embeddings(differentiable(translator.torch_backend.model), source, target, with_prefix=True)


@pytest.fixture(scope="module")
def one():
    return of_lines(*LINES[1:3])


def test_the_last_token_with_a_gradient_is_the_last_one_that_is_read_before_the_target_token(of):
    for token, gradient in enumerate(of.gradients(of.inputs[None])):
        assert int(gradient[0].any(1).nonzero().max()) == of.read(token) - 1


@pytest.mark.short_form(2)
@pytest.mark.parametrize(
    "method",
    [
        "integrated-gradients",
        "sequential-integrated-gradients",
        "discretized-integrated-gradients",
        "gradient-shap",
    ],
)
def test_steps_reach_each_method_with_a_path_and_are_32_otherwise(method):
    word = of_lines(*(line.split()[0] for line in LINES[1:3]))
    few, more = (contributions(word, method, steps) for steps in (5, 11))
    assert (few - more).abs().max() > 1e-5
    if method in ("discretized-integrated-gradients", "gradient-shap"):
        assert_close(contributions(word, method, None), contributions(word, method, 32), 1e-6)


@pytest.mark.parametrize("steps", [1, 4, 5, 9])
def test_a_path_of_gradient_shap_has_a_quarter_of_the_steps_rounded_up(one, monkeypatch, steps):
    points = []

    def recorded(of, rows, factors):
        points.append(len(rows))
        return rows.new_zeros(of.target.size(1), rows.size(1))

    monkeypatch.setattr(Attributed, "contributions", recorded)
    gradient_shap(one, steps)
    assert points == [math.ceil(steps / 4)] * BASELINES


@dataclass(frozen=True)
class Steep(Attributed):
    """Log-probabilities that rise by 10 nats at a third of the way from the baseline to the input."""

    def features(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T D"]:
        way = (rows * self.inputs).sum((1, 2)) / self.inputs.square().sum()
        return way[:, None, None].expand(-1, self.target.size(1), 1)

    def log_probs_of(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T"]:
        return 10 * (400 * (features[..., 0] - 1 / 3)).sigmoid()


def test_the_part_with_the_largest_error_is_halved_and_a_path_has_a_maximum_of_parts(one, monkeypatch):
    steep = Steep(**vars(one))
    assert_close(integrated_gradients(steep, None).sum(1), torch.full((one.target.size(1),), 10.0), TOLERANCE)
    monkeypatch.setattr(path_attribution, "TOLERANCE", -1.0)
    for tokens in (1, 40, 160, 161):
        parts = []
        size = one.source.size(1)
        long = replace(
            one,
            target=one.target[:, :1].expand(1, tokens),
            inputs=one.inputs[:size],
            baseline=one.baseline[:size],
        )
        monkeypatch.setattr(
            Attributed,
            "contributions",
            lambda of, rows, _: parts.append(len(rows)) or rows.new_zeros(of.target.size(1), rows.size(1)),
        )
        integrated_gradients(long, None)
        halved = min(MAX_PARTS - FIRST_PARTS, HALVINGS // tokens)
        assert parts == [POINTS_OF_PART] * (FIRST_PARTS + 2 * halved)


def test_a_path_goes_to_the_nearest_token_that_is_moved_least(monkeypatch):
    monkeypatch.setattr(path_attribution, "NEIGHBOURS", 3)
    embedding = nn.Embedding(12, 2)
    with torch.no_grad():
        embedding.weight[:] = torch.tensor(
            [[0.0, 0]] * 4 + [[4, 4], [1, 1], [3, 3], [2, 2], [9, 9], [2.5, 3.5], [-5, 2], [0, 7]]
        )
    path = token_path(embedding, 4, torch.zeros(2), 5)
    np.testing.assert_array_equal(path.detach(), [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]])


def test_a_token_is_none_of_its_own_neighbours(monkeypatch):
    """With one neighbour the path goes on to it, wherever else it could go."""
    monkeypatch.setattr(path_attribution, "NEIGHBOURS", 1)
    embedding = nn.Embedding(8, 2)
    with torch.no_grad():
        embedding.weight[:] = torch.tensor([[0.0, 0]] * 4 + [[8, 8], [6, 7], [1, 1], [9, 20]])
    path = token_path(embedding, 4, torch.zeros(2), 3)
    np.testing.assert_array_equal(path.detach(), [[0, 0], [6, 7], [8, 8]])


@dataclass(frozen=True)
class Curved(Attributed):
    """Log-probabilities that no linear model predicts."""

    def features(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T D"]:
        return ((rows / self.inputs).mean(2) @ weights(self).T)[..., None]

    def log_probs_of(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T"]:
        return features[..., 0].exp()


def test_lime_is_the_weighted_regression_with_the_documented_kernel(one, monkeypatch):
    curved, drawn = Curved(**vars(one)), []

    def recorded(of, masks):
        drawn.append(masks)
        return masked_log_probs(of, masks)

    monkeypatch.setattr(perturbation_attribution, "masked_log_probs", recorded)
    found = lime(curved)
    (masks,) = drawn
    size = masks.size(1)
    assert len(masks) == max(SAMPLES, SAMPLES_PER_TOKEN * size)
    assert masks[0].all()
    there, log_probs = masks.double(), masked_log_probs(curved, masks).double()
    cosines = nn.functional.cosine_similarity(there, torch.ones(1, size).double(), dim=1)
    kernel = (-((1 - cosines) ** 2) / (2 * 0.25**2)).exp()
    for token in range(one.target.size(1)):
        terms = torch.cat([torch.ones(len(masks), 1), there[:, : one.read(token)]], 1).double()
        left = terms.T @ (kernel[:, None] * terms)
        expected = torch.linalg.solve(left, terms.T @ (kernel * log_probs[:, token]))[1:]
        assert_close(found[token, : one.read(token)], expected, 1e-6)


def test_a_long_sentence_has_more_samples(one, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        perturbation_attribution,
        "masked_log_probs",
        lambda of, masks: drawn.append(masks) or torch.zeros(len(masks), of.target.size(1)),
    )
    lime(replace(one, inputs=one.inputs[:1].expand(20, -1)))
    assert drawn[0].shape == (20 * SAMPLES_PER_TOKEN, 20)
    assert 20 * SAMPLES_PER_TOKEN > SAMPLES


@dataclass(frozen=True)
class Ranked(Attributed):
    """The target token has a number of likelier tokens, whatever the input."""

    likelier: int = 0

    def features(self, rows: Float[Tensor, "M C D"]) -> Float[Tensor, "M T D"]:
        return torch.zeros(len(rows), self.target.size(1), 1)

    def all_log_probs(self, features: Float[Tensor, "M T D"]) -> Float[Tensor, "M T V"]:
        odds = torch.zeros(*features.shape[:2], self.model.target_embedding.num_embeddings)
        odds.scatter_(2, self.target[..., None].expand(len(features), -1, 1), 1.0)
        for place, token in enumerate(self.target[0].tolist()):
            others = [other for other in range(odds.size(2)) if other != token]
            odds[:, place, others[: self.likelier]] = 2.0
        return odds.log_softmax(2)


@pytest.mark.parametrize(("likelier", "steps"), [(0, 1), (2, 1), (3, 4)])
def test_a_probe_replaces_and_keeps_the_documented_shares_and_ends_at_the_three_likeliest(
    one, monkeypatch, likelier, steps
):
    replaced = []

    def recorded(of, places, generator):
        replaced.append(places)
        return of.inputs.expand(len(places), -1, -1)

    monkeypatch.setattr(perturbation_attribution, "with_random_tokens", recorded)
    reagent(Ranked(**vars(one), likelier=likelier), most_steps=4)
    size, targets = len(one.inputs), one.target.size(1)
    calls = 1 + targets  # one of all probes, and those of the target tokens, 16 in a call
    assert len(replaced) == steps * calls
    for step in range(steps):
        probes, *others = replaced[step * calls : (step + 1) * calls]
        assert probes.sum(1).tolist() == [math.ceil(0.3 * size)] * PROBES
        kept = (~torch.cat(others)).sum(1)
        expected = [math.ceil(0.3 * one.read(token)) for _ in range(PROBES) for token in range(targets)]
        assert kept.tolist() == expected
