"""Several models as one."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from dragoman.model.build import build_model
from dragoman.model.symbols import END, PAD, UNKNOWN
from dragoman.search.attention_weights import alignment_head, initial_coverage
from dragoman.search.beam import beam_search
from dragoman.search.ensemble import Ensemble
from dragoman.search.hypothesis import length_penalty
from dragoman.search.scoring import token_log_probabilities
from dragoman.search.settings import SearchSettings
from tests.conftest import KINDS, MODELS, TINY, VOCABULARY
from tests.test_search import following, tiny

ASKED = SearchSettings(beam_size=3, n_best=3, max_extra_tokens=4)


def found(model, sources):
    return [
        [(one.ids, pytest.approx(one.score, abs=1e-4)) for one in hypotheses]
        for hypotheses in beam_search(model, sources, ASKED)
    ]


def test_the_mean_of_probabilities_is_as_exact_as_float32_whatever_the_models_compute_in():
    models = [tiny("transformer", VOCABULARY, seed).to(torch.bfloat16) for seed in range(3)]
    features = torch.randn(5, 3 * models[0].settings.d_model, generator=torch.Generator().manual_seed(1))
    log_probs = Ensemble(models).logits(features.to(torch.bfloat16))
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(5))


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_itself_is_the_model(kind, sources):
    model = tiny(kind, VOCABULARY, 1)
    assert found(Ensemble([model, model]), sources) == found(model, sources)
    assert found(Ensemble([model]), sources) == found(model, sources)


@pytest.mark.long
def test_the_probability_is_the_mean_of_the_models_and_their_order_does_not_matter(sources, targets):
    models = [tiny(kind, VOCABULARY, seed) for seed, kind in enumerate(MODELS)]  # of different widths, too
    targets[:, -1] = END
    expected = torch.stack([token_log_probabilities(model, sources, targets).exp() for model in models])[
        ..., 0
    ].mean(0)
    for order in (models, models[::-1]):
        torch.testing.assert_close(
            token_log_probabilities(Ensemble(order), sources, targets)[..., 0].exp(), expected
        )
    assert found(Ensemble(models), sources) == found(Ensemble(models[::-1]), sources)


@pytest.mark.long
@torch.no_grad()
def test_a_search_of_several_models_finds_the_best_by_the_mean_of_their_probabilities():
    models, source = [tiny(kind, 6, 1) for kind in ("transformer", "lstm")], torch.tensor([[4, 5, END]])

    def log_p(ids):
        each = [
            [following(model, (4, 5, END), tuple(ids[:at]))[token] for at, token in enumerate(ids)]
            for model in models
        ]
        return sum(math.log(sum(map(math.exp, both)) / 2) for both in zip(*each, strict=True))

    everything = [
        [*ids, END] for length in range(4) for ids in itertools.product((UNKNOWN, 4, 5), repeat=length)
    ]
    ranked = sorted((log_p(ids) / length_penalty(len(ids), 0.6), ids[:-1]) for ids in everything)[::-1]
    (best,) = beam_search(
        Ensemble(models), source, SearchSettings(beam_size=len(ranked), max_extra_tokens=1, n_best=5)
    )
    assert [one.ids for one in best] == [ids for _, ids in ranked[:5]]
    assert [one.score for one in best] == pytest.approx([float(score) for score, _ in ranked[:5]], abs=1e-5)


def test_the_shortest_limit_holds():
    limited, free = tiny("transformer, other options", VOCABULARY, 0), tiny("transformer", VOCABULARY, 0)
    assert Ensemble([free, limited]).longest_target == limited.longest_target
    assert Ensemble([free]).longest_target is None
    settings = MODELS["transformer, other options"]
    sizes = [replace(settings, max_positions=settings.max_positions + more) for more in (0, 3, 1)]
    for order in itertools.permutations(sizes):
        ensemble = Ensemble([build_model(each, VOCABULARY, VOCABULARY) for each in order])
        assert ensemble.longest_source == ensemble.longest_target == limited.longest_target


@pytest.mark.parametrize("ends", [*itertools.product([True, False], repeat=2)])
def test_the_end_of_the_source_needs_coverage_if_any_model_attends_to_it(ends, sources):
    models = [build_model(replace(TINY, source_end=end), VOCABULARY, VOCABULARY) for end in ends]
    covered = (sources == PAD) | ((sources == END) & (not any(ends)))
    assert torch.equal(initial_coverage(Ensemble(models), sources), covered.float())


def test_the_head_of_alignments_is_that_of_the_first_model():
    heads = [2, None, 1]
    models = [build_model(replace(TINY, alignment_head=head), VOCABULARY, VOCABULARY) for head in heads]
    for order in itertools.permutations(range(3)):
        assert alignment_head(Ensemble([models[place] for place in order])) == heads[order[0]]
        assert alignment_head(models[order[0]]) == heads[order[0]]
