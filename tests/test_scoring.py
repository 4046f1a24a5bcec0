"""The likelihood of a given translation: forced decoding."""

import math

import pytest
import torch

from dragoman.model.symbols import END, PAD, START
from dragoman.search.scoring import Likelihood, token_log_probabilities
from dragoman.system.errors import DragomanError
from tests.test_search import following


@pytest.mark.short_form(2)
@torch.no_grad()
def test_each_token_has_the_log_probability_that_the_model_gives_it_after_those_before_it(
    model, sources, targets
):
    for row, length in enumerate((6, 2, 4)):
        targets[row, length - 1 :] = torch.tensor([END] + [PAD] * (6 - length))
    log_p = token_log_probabilities(model, sources, targets)
    for row, length in enumerate((6, 2, 4)):
        source = tuple(token for token in sources[row].tolist() if token != PAD)
        ids = targets[row].tolist()[:length]
        expected = [following(model, source, tuple(ids[:place]))[ids[place]] for place in range(length)]
        assert log_p[row, :length].tolist() == pytest.approx(expected, abs=1e-5)
        assert log_p[row, length:].eq(0).all()


def test_padding_and_start_have_no_probability(model, sources):
    total = sum(
        token_log_probabilities(model, sources[:1], torch.tensor([[token]])).exp().item()
        for token in range(11)
        if token not in (PAD, START)
    )
    assert total == pytest.approx(1, abs=1e-5)


def test_a_model_with_nan_is_refused(model, sources, targets):
    with torch.no_grad():
        model.target_embedding.weight[5] = torch.nan
    targets[:] = 5
    with pytest.raises(DragomanError, match="probabilities are"):
        token_log_probabilities(model, sources, targets)


def test_a_likelihood_sums_up_and_its_perplexity_is_that_of_a_token():
    likelihood = Likelihood(["a", "b", "</s>"], [math.log(0.5), math.log(0.25), math.log(0.125)])
    assert likelihood.log_probability == pytest.approx(math.log(1 / 64))
    assert likelihood.perplexity == pytest.approx(4)
