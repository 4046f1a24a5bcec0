"""Draws: their frequencies, their borders, and that neighbours do not matter."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from dragoman.decoding.sampling import draw, sample
from dragoman.decoding.search import greedy_search
from dragoman.decoding.settings import SearchSettings
from dragoman.errors import DragomanError
from dragoman.model.symbols import END, PAD
from tests.test_search import brute_force, tiny

SOURCE = torch.tensor([[4, 5, END]])


def test_translations_are_drawn_as_often_as_they_are_likely():
    model, draws = tiny("transformer", 6, 0), 20_000
    (drawn,) = sample(model, SOURCE, SearchSettings(temperature=1.0, n_best=draws, extra_length=3))
    seen = Counter(tuple(one.ids) for one in drawn)
    for log_p, ids in brute_force(model, SOURCE, 2, 0.0):  # shorter than the longest: not made to end
        p = float(torch.tensor(log_p).exp())
        assert abs(seen[tuple(ids)] / draws - p) < 5 * (p / draws) ** 0.5 + 1e-4
    assert [one.score for one in drawn] == sorted((one.score for one in drawn), reverse=True)


def test_temperature_and_borders_are_those_of_the_definition():
    p = torch.tensor([0.1, 0.5, 0.15, 0.25], dtype=torch.float64)
    log_p = p.log().expand(1, 4001, 4)
    uniform = torch.linspace(0, 1, 4001, dtype=torch.float64)[None]

    def shares(**asked):
        return draw(log_p, uniform, SearchSettings(**{"temperature": 1.0, **asked})).flatten().bincount(minlength=4) / 4001

    def expected(*weights):
        return torch.tensor(weights) / sum(weights)

    torch.testing.assert_close(shares(), p.float(), atol=1e-3, rtol=0)
    torch.testing.assert_close(shares(top_k=2), expected(0, 0.5, 0, 0.25), atol=1e-3, rtol=0)
    torch.testing.assert_close(shares(top_p=0.6), expected(0, 0.5, 0, 0.25), atol=1e-3, rtol=0)
    torch.testing.assert_close(shares(top_p=0.5), expected(0, 1.0, 0, 0), atol=1e-3, rtol=0)
    torch.testing.assert_close(shares(temperature=0.5), expected(*(p**2).tolist()), atol=1e-3, rtol=0)


def test_a_rounding_changes_no_draw():
    noise = 1e-7 * torch.randn(1, 1000, 50, generator=torch.Generator().manual_seed(1))
    uniform = torch.rand(1, 1000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    likely = torch.zeros(1, 1000, 50)  # all the same
    asked = SearchSettings(temperature=1.0)
    assert torch.equal(draw(likely.log_softmax(-1), uniform, asked), draw((likely + noise).log_softmax(-1), uniform, asked))


@pytest.mark.parametrize("borders", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}])
def test_the_likeliest_alone_is_greedy_search(model, sources, borders):
    asked = SearchSettings(**{"temperature": 1.0, "extra_length": 6, **borders})
    greedy = [one.ids for (one,) in greedy_search(model, sources, SearchSettings(beam_size=1, extra_length=6))]
    assert [one.ids for (one,) in sample(model, sources, asked)] == greedy


def test_draws_depend_on_the_seed_and_the_sentence_alone(model, sources):
    asked = SearchSettings(temperature=5.0, n_best=3, extra_length=4)
    together = sample(model, sources, asked)
    for row, expected in enumerate(together):
        (alone,) = sample(model, sources[row : row + 1, : int((sources[row] != PAD).sum())], asked)
        assert [one.ids for one in alone] == [one.ids for one in expected]
    other = sample(model, sources, replace(asked, draw_seed=2))
    assert [one.ids for found in together for one in found] != [one.ids for found in other for one in found]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"top_k": 5}, "top_k and top_p are for draws; they need a temperature above 0"),
        ({"draw_seed": 5}, "draw_seed is for draws; they need a temperature above 0"),
        (
            {"beam_size": 2, "temperature": 1.0},
            "beam_size and length_penalty are for a beam; of draws",
        ),
        ({"top_p": 0.5}, "top_k and top_p are for draws"),
        ({"top_p": 0.0, "temperature": 1.0}, "top_p is 0.0; it must be above 0, and 1 at most"),
        ({"coverage_penalty": 0.2, "temperature": 1.0}, "rank what a beam finds; draws, with a temperature, are not ranked so"),
        ({"length_power": 1.0, "length_penalty": 1.0}, "length_power takes the place of length_penalty; give one of them"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong, message):
    with pytest.raises(DragomanError, match=message):
        SearchSettings(**wrong)
