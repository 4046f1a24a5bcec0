"""The learning rate of section 5.3."""

import pytest

from dragoman.training.objective import learning_rate


def test_it_rises_linearly_for_the_warm_up_and_then_falls_with_the_inverse_root():
    rates = [learning_rate(step, 512, 4000) for step in range(1, 16001)]
    assert max(rates) == rates[3999] == pytest.approx((512 * 4000) ** -0.5)
    assert rates[1999] == pytest.approx(rates[3999] / 2)
    assert rates[15999] == pytest.approx(rates[3999] / 2)


def test_step_zero_is_refused():
    with pytest.raises(ValueError, match="begins with step 1, not 0"):
        learning_rate(0, 512, 4000)
