"""The learning rate of section 5.3, and the trapezoid of short trainings."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Preset, Recipe, learning_rate_schedule
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.training.schedule import (
    describe_learning_rate,
    learning_rate,
    make_learning_rate,
    trapezoid,
    trapezoid_peak,
)
from dragoman.training.settings import ScheduleName, TrainingSettings

COUNTS = st.integers(1, 5000)


def test_it_rises_linearly_for_the_warm_up_and_then_falls_with_the_inverse_root():
    rates = [learning_rate(step, 512, 4000) for step in range(1, 16001)]
    assert max(rates) == rates[3999] == pytest.approx((512 * 4000) ** -0.5)
    assert rates[1999] == pytest.approx(rates[3999] / 2)
    assert rates[15999] == pytest.approx(rates[3999] / 2)


@pytest.mark.parametrize("rate", [lambda: learning_rate(0, 512, 4000), lambda: trapezoid(0, 1, 1, 1, 1)])
def test_step_zero_is_refused(rate):
    with pytest.raises(ValueError, match="begins with step 1, not 0"):
        rate()


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), st.floats(1e-5, 1))
def test_a_trapezoid_rises_stays_and_falls_to_zero_in_straight_lines(warmup, stable, cooldown, peak):
    updates = warmup + stable + cooldown
    rates = [trapezoid(step, peak, warmup, cooldown, updates) for step in range(1, updates + 2)]
    assert rates[:warmup] == pytest.approx([peak * step / warmup for step in range(1, warmup + 1)])
    assert rates[warmup : warmup + stable] == [peak] * stable
    fall = [peak * (cooldown - step) / (cooldown + 1) for step in range(cooldown + 1)]
    assert rates[warmup + stable :] == pytest.approx(fall)
    assert rates[-1] == 0 < min(rates[:-1])


@given(COUNTS, COUNTS, COUNTS, st.sampled_from([128, 512]), st.floats(0.1, 4), st.none() | st.floats(1e-4, 1))
def test_the_peak_is_that_of_the_settings(step, warmup, cooldown, d_model, scale, peak_rate):
    chosen = TrainingSettings(
        updates=warmup + cooldown,
        warmup_steps=warmup,
        cooldown_steps=cooldown,
        learning_rate_scale=scale,
    )
    step = min(step, warmup + cooldown + 1)
    for schedule in get_args(ScheduleName):
        settings = replace(chosen, schedule=schedule)
        rate = make_learning_rate(settings, d_model, peak_rate)
        assert rate(step) <= rate(warmup) * (1 + 1e-12)
        if peak_rate is not None:
            assert rate(warmup) == pytest.approx(scale * peak_rate)
        formula = describe_learning_rate(settings, d_model, peak_rate)
        python = formula.replace("·", "*").replace("−", "-").replace("^", "**")
        assert eval(python, {"min": min, "step": step}) == pytest.approx(rate(step), rel=1e-4)


@given(COUNTS, st.sampled_from([(None, 7), (9, None), (None, None)]), st.none() | st.floats(1e-4, 1))
def test_a_trapezoid_whose_end_is_not_chosen_rises_and_stays(step, end, peak_rate):
    updates, cooldown = end
    settings = TrainingSettings(
        updates=updates, warmup_steps=100, cooldown_steps=cooldown, schedule="trapezoid"
    )
    rate = make_learning_rate(settings, 128, peak_rate)
    assert rate(step) == pytest.approx(rate(100) * min(1, step / 100))
    formula = describe_learning_rate(settings, 128, peak_rate).replace("·", "*")
    assert eval(formula, {"min": min, "step": step}) == pytest.approx(rate(step), rel=1e-4)


@pytest.mark.parametrize("d_model", [64, 128, 256, 512])
def test_the_peak_of_a_trapezoid_is_four_thousandths_at_a_width_of_128_and_falls_with_its_root(d_model):
    assert trapezoid_peak(d_model) == pytest.approx(0.004 * (128 / d_model) ** 0.5, rel=0.02)


def test_the_paper_s_schedule_is_equation_3_to_the_last_bit():
    rate = make_learning_rate(TrainingSettings(warmup_steps=4000, schedule="paper"), 512)
    for step in range(1, 20_000, 7):
        assert rate(step) == learning_rate(step, 512, 4000)


@pytest.mark.parametrize("preset", get_args(Preset))
def test_presets_of_the_paper_have_its_schedule_and_small_models_a_trapezoid(preset):
    recipe = Recipe(preset=preset, model=PRESETS.get(preset, ModelSettings()))
    assert learning_rate_schedule(recipe) == ("trapezoid" if preset in ("tiny", "small") else "paper")
    adapted = replace(recipe, adaptation=AdaptationSettings(initial_model=Path("a")))
    for other in (adapted, replace(recipe, model=replace(recipe.model, norm="post"))):
        assert learning_rate_schedule(other) == "paper"
        for schedule in get_args(ScheduleName):
            training = TrainingSettings(schedule=schedule)
            assert learning_rate_schedule(replace(other, training=training)) == schedule
