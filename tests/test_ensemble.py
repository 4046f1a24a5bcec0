"""Several models as one."""

import pytest
import torch

from dragoman.decoding.ensemble import Ensemble
from dragoman.decoding.scoring import token_log_probabilities
from dragoman.decoding.search import beam_search
from dragoman.decoding.settings import SearchSettings
from dragoman.model.symbols import END
from tests.conftest import MODELS, VOCABULARY
from tests.test_search import tiny

ASKED = SearchSettings(beam_size=3, n_best=3, extra_length=4)


def found(model, sources):
    return [[(one.ids, pytest.approx(one.score, abs=1e-4)) for one in hypotheses] for hypotheses in beam_search(model, sources, ASKED)]


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_with_itself_is_the_model(kind, sources):
    model = tiny(kind, VOCABULARY, 1)
    assert found(Ensemble([model, model]), sources) == found(model, sources)
    assert found(Ensemble([model]), sources) == found(model, sources)


def test_the_probability_is_the_mean_of_the_models_and_their_order_does_not_matter(sources, targets):
    models = [tiny(kind, VOCABULARY, seed) for seed, kind in enumerate(MODELS)]  # of different widths, too
    targets[:, -1] = END
    expected = torch.stack([token_log_probabilities(model, sources, targets).exp() for model in models])[..., 0].mean(0)
    for order in (models, models[::-1]):
        torch.testing.assert_close(token_log_probabilities(Ensemble(order), sources, targets)[..., 0].exp(), expected)
    assert found(Ensemble(models), sources) == found(Ensemble(models[::-1]), sources)


def test_the_shortest_limit_holds():
    limited, free = tiny("transformer, other options", VOCABULARY, 0), tiny("transformer", VOCABULARY, 0)
    assert Ensemble([free, limited]).longest_target == limited.longest_target
    assert Ensemble([free]).longest_target is None
