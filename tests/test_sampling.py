"""Draws: their frequencies, their borders, and that neighbours do not matter."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.model.symbols import END, PAD
from dragoman.search.beam import greedy_search
from dragoman.search.sampling import gumbel_noise, sample, sampling_logits
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from tests.conftest import KINDS
from tests.test_search import brute_force, tiny

SOURCE = torch.tensor([[4, 5, END]])


def sample_token(log_probs, noise, asked):
    return (sampling_logits(log_probs, asked) + noise).argmax(-1)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", KINDS)
def test_translations_are_drawn_as_often_as_they_are_likely(kind):
    model, draws = tiny(kind, 6, 0), 8_000
    (drawn,) = sample(model, SOURCE, SearchSettings(temperature=1.0, n_best=draws, max_extra_tokens=3))
    seen = Counter(tuple(one.ids) for one in drawn)
    for log_p, ids in brute_force(model, SOURCE, 2, 0.0):  # shorter than the longest: not made to end
        p = float(torch.tensor(log_p).exp())
        assert abs(seen[tuple(ids)] / draws - p) < 5 * (p / draws) ** 0.5 + 1e-4
    assert [one.score for one in drawn] == sorted((one.score for one in drawn), reverse=True)


def test_temperature_and_borders_are_those_of_the_definition():
    p = torch.tensor([0.1, 0.5, 0.15, 0.25])
    draws = 40_000
    noise = gumbel_noise(torch.arange(draws)[None], 3, 4)

    def shares(**asked):
        drawn = sample_token(
            p.log().expand(1, draws, 4), noise, SearchSettings(**{"temperature": 1.0, **asked})
        )
        return drawn.flatten().bincount(minlength=4) / draws

    def expected(*weights):
        return torch.tensor(weights) / sum(weights)

    torch.testing.assert_close(shares(), p, atol=0.01, rtol=0)
    torch.testing.assert_close(shares(top_k=2), expected(0, 0.5, 0, 0.25), atol=0.01, rtol=0)
    torch.testing.assert_close(shares(top_p=0.6), expected(0, 0.5, 0, 0.25), atol=0.01, rtol=0)
    torch.testing.assert_close(shares(top_p=0.5), expected(0, 1.0, 0, 0), atol=0, rtol=0)
    torch.testing.assert_close(shares(top_k=2, top_p=0.6), expected(0, 1.0, 0, 0), atol=0, rtol=0)  # 2 / 3
    torch.testing.assert_close(shares(temperature=0.5), expected(*(p**2).tolist()), atol=0.01, rtol=0)


def test_splitmix64_is_as_in_its_definition():
    def reference(key, place):
        bits = (key + place * 0x9E3779B97F4A7C15) % 2**64
        bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
        return -math.log(-math.log1p(-(((bits ^ bits >> 31) >> 11) + 0.5) / 2**53))

    noise = gumbel_noise(torch.tensor([[-5, 7]]), 2, 9)
    expected = [[reference(key, 19 + token) for token in range(9)] for key in (-5, 7)]
    torch.testing.assert_close(noise, torch.tensor([expected]), atol=1e-5, rtol=1e-5)


def key_of(bits, place):
    """The key whose number `place` in SplitMix64 is `bits`: each of its steps can be undone."""

    def unshifted(shifted, count):
        number = shifted
        for _ in range(64 // count):
            number = shifted ^ number >> count
        return number

    for count, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        bits = unshifted(bits, count) * pow(factor, -1, 2**64) % 2**64
    key = (bits - place * 0x9E3779B97F4A7C15) % 2**64
    return key - 2**64 * (key >= 2**63)


@given(st.integers(0, 2**64 - 1), st.integers(0, 9))
@example(0, 0)
@example(2**64 - 1, 3)
def test_noise_is_finite_and_that_of_its_number_whatever_the_bits(bits, step):
    uniform = min(((bits >> 11) + 0.5) / 2**53, 1 - 2.0**-24)
    noise = gumbel_noise(torch.tensor([[key_of(bits, step + 1)]]), step, 1)
    torch.testing.assert_close(noise.item(), -math.log(-math.log1p(-uniform)), rtol=1e-5, atol=1e-5)


@pytest.mark.long
def test_a_rounding_that_runs_through_all_tokens_changes_no_draw():
    """Such as the neighbours in a batch cause. It would move the borders of cumulated probabilities."""
    generator = torch.Generator().manual_seed(1)
    log_p = (3 * torch.randn(1, 400, 16_000, generator=generator)).log_softmax(-1)
    rounded = (
        log_p + 1e-6 * torch.randn(1, 400, 16_000, generator=generator).cumsum(-1).clamp(-1, 1)
    ).log_softmax(-1)
    noise, asked = gumbel_noise(torch.arange(400)[None], 0, 16_000), SearchSettings(temperature=1.0)
    assert torch.equal(sample_token(log_p, noise, asked), sample_token(rounded, noise, asked))


@pytest.mark.long
def test_tokens_that_are_hardly_ever_drawn_are_drawn_as_often_as_they_are_likely():
    rare, draws = 4e-7, 500
    log_p = torch.full((1, draws, 20_000), rare).log()
    log_p[..., 0] = math.log1p(-rare * 19_999)
    drawn = sample_token(
        log_p, gumbel_noise(torch.arange(draws)[None], 0, 20_000), SearchSettings(temperature=1.0)
    )
    assert 0 < (drawn > 0).sum() < 20  # 4 are expected


@pytest.mark.short_form(1)
@pytest.mark.parametrize("borders", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}])
def test_the_likeliest_alone_is_greedy_search(model, sources, borders):
    asked = SearchSettings(**{"temperature": 1.0, "max_extra_tokens": 6, **borders})
    greedy = [
        one.ids for (one,) in greedy_search(model, sources, SearchSettings(beam_size=1, max_extra_tokens=6))
    ]
    assert [one.ids for (one,) in sample(model, sources, asked)] == greedy


@pytest.mark.short_form(1)
def test_draws_depend_on_the_seed_and_the_sentence_alone(model, sources):
    asked = SearchSettings(temperature=5.0, n_best=3, max_extra_tokens=4)
    batched = sample(model, sources, asked)
    for row, expected in enumerate(batched):
        (alone,) = sample(model, sources[row : row + 1, : int((sources[row] != PAD).sum())], asked)
        assert [one.ids for one in alone] == [one.ids for one in expected]
    other = sample(model, sources, replace(asked, sampling_seed=2))
    assert [one.ids for found in batched for one in found] != [one.ids for found in other for one in found]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"top_k": 5}, "top_k is for sampling and needs temperature above 0; give both, or leave top_k out"),
        ({"sampling_seed": 5}, "sampling_seed is for sampling and needs temperature above 0"),
        (
            {"beam_size": 2, "temperature": 1.0},
            "beam_size and temperature exclude each other: samples have no beam",
        ),
        ({"top_p": 0.5}, "top_p is for sampling and needs temperature above 0"),
        ({"top_p": 0.0, "temperature": 1.0}, "top_p is 0.0; it must be above 0"),
        (
            {"coverage_penalty": 0.2, "temperature": 1.0},
            "coverage_penalty and temperature exclude each other: samples have no beam, and are ranked",
        ),
        (
            {"length_power": 1.0, "length_penalty": 1.0},
            "length_power and length_penalty exclude each other: both divide the score by a length",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong, message):
    with pytest.raises(DragomanError, match=message):
        SearchSettings(**wrong)
