"""Inverted dropout, from random bits on a CPU."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.native.dropout import CounterDropout, threshold_and_scale


def test_survivors_of_ones_are_divided_by_what_is_kept():
    torch.manual_seed(0)
    dropped = CounterDropout(0.1)(torch.ones(1000, 100))
    values = dropped.unique()
    torch.testing.assert_close(values, torch.tensor([0, 1 / 0.9]), atol=1e-4, rtol=0)
    assert abs(dropped.eq(0).float().mean() - 0.1) < 0.005
    assert abs(dropped.mean() - 1) < 0.005


@given(st.floats(0, 0.999))
def test_a_mask_drops_the_nearest_share_that_16_bits_have_and_keeps_the_mean(p):
    rounded = threshold_and_scale(p)
    kept = 1.0
    if rounded is not None:
        threshold, scale = rounded
        bits = np.arange(-(2**15), 2**15)
        kept = (bits >= threshold).mean()
        assert scale * kept == pytest.approx(1, rel=1e-12)
    assert abs((1 - kept) - p) <= 0.5001 / 2**16
    assert (rounded is None) == (kept == 1)


def test_in_bfloat16_only_results_are_rounded():
    torch.manual_seed(0)
    x = (1 + torch.rand(1000, 100)).bfloat16()
    dropped = CounterDropout(0.1)(x)
    kept = dropped != 0
    torch.testing.assert_close(
        (dropped[kept].double() / x[kept].double()).mean().item(), 1 / 0.9, atol=2e-4, rtol=0
    )


def test_the_gradient_passes_where_the_value_does():
    x = torch.ones(7, 5, requires_grad=True)
    dropped = CounterDropout(0.5)(x)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())


def test_the_generators_state_gives_the_same_zeros_again():
    state = torch.get_rng_state()
    first = CounterDropout(0.3)(torch.ones(9, 9))
    torch.set_rng_state(state)
    assert torch.equal(first, CounterDropout(0.3)(torch.ones(9, 9)))


def test_nothing_is_dropped_in_evaluation():
    x = torch.ones(3, 3)
    assert torch.equal(CounterDropout(0.9).eval()(x), x)
