"""The minutes of a run: the number of updates is chosen from the training, as if it had been given."""

import os
import signal
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.pipeline import run as run_module
from dragoman.pipeline.adaptation.initial_model import MAX_PASSES as PASSES_OF_ADAPTATION
from dragoman.pipeline.autoconfigure import with_cooldown
from dragoman.pipeline.budget import (
    BUDGET,
    Budget,
    choose_updates,
    most_updates,
    open_ended,
    share_before_choice,
    shortened,
)
from dragoman.pipeline.minutes import MAX_PASSES
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.pipeline.run import end_at, run
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.clock import moment
from dragoman.system.errors import DragomanError
from dragoman.system.files import file_hash
from dragoman.system.messages import messages_to
from dragoman.system.toml import write_toml
from dragoman.training.checkpoint import TrainingState, checkpoints
from dragoman.training.interrupt import TrainingInterruptedError
from dragoman.training.schedule import make_learning_rate
from dragoman.training.settings import Schedule, ScheduleName, TrainingSettings
from dragoman.training.world import World
from tests.conftest import small_recipe

SCHEDULES = get_args(ScheduleName)


def recipe_for(folder, schedule, minutes=0.01):
    recipe = small_recipe(folder, folder / "run", updates=None, minutes=minutes, schedule=schedule)
    return replace(recipe, training=replace(recipe.training, validate_every=10, checkpoint_every=10))


def hashes(out):
    """Of the last weights and moments, and of the model that was kept."""
    last = checkpoints(out)[-1]
    files = last / "model.safetensors", last / "optimizer.safetensors", out / "model" / "model.safetensors"
    return [last.name, *map(file_hash, files)]


def run_with_recorded_numbers(out, folder):
    """A run that is given what another run has chosen."""
    recipe = read_recipe(out)
    assert recipe.training.updates
    again = replace(recipe, out=folder / "again")
    run(again)
    return again.out


@pytest.mark.long
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_for_minutes_is_the_run_with_the_updates_that_it_chose(tmp_path, schedule):
    recipe, messages = recipe_for(tmp_path, schedule), []
    with messages_to(messages.append):
        run(recipe)
    assert not (recipe.out / BUDGET).exists()
    assert hashes(recipe.out) == hashes(run_with_recorded_numbers(recipe.out, tmp_path))
    chosen = read_recipe(recipe.out).training
    assert any(message.startswith(f"The run will have {chosen.updates:,} updates: ") for message in messages)
    assert (chosen.cooldown_steps is None) == (schedule == "paper")


def interrupt_at(monkeypatch, step):
    """Send this process a signal when it has done so many updates."""
    learning_rate = run_module.make_learning_rate

    def make(*arguments):
        rate = learning_rate(*arguments)

        def interrupting(number):
            if number == step:
                os.kill(os.getpid(), signal.SIGTERM)
            return rate(number)

        return interrupting

    monkeypatch.setattr(run_module, "make_learning_rate", make)


@pytest.mark.long
@pytest.mark.parametrize(("schedule", "step"), [("paper", 1), ("trapezoid", 7)])
def test_a_run_that_is_interrupted_before_the_choice_chooses_later(tmp_path, monkeypatch, schedule, step):
    recipe, messages, started = recipe_for(tmp_path, schedule, minutes=20), [], time.monotonic()
    with monkeypatch.context() as patch:
        interrupt_at(patch, step)
        with pytest.raises(TrainingInterruptedError):
            run(recipe)
    assert Budget.read(recipe.out).seconds == 20 * 60
    assert 0 < Budget.read(recipe.out).preparation < time.monotonic() - started
    Budget(seconds=1.0, preparation=1200.0).write(recipe.out)
    with messages_to(messages.append):
        run(recipe)
    assert any("of them took 20 minutes, the preparation included" in message for message in messages)
    assert not (recipe.out / BUDGET).exists()
    assert hashes(recipe.out) == hashes(run_with_recorded_numbers(recipe.out, tmp_path))


@pytest.mark.long
def test_updates_that_are_given_to_an_interrupted_run_are_its_number(tmp_path, monkeypatch):
    recipe = recipe_for(tmp_path, "paper", minutes=20)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        with pytest.raises(TrainingInterruptedError):
            run(recipe)
    run(replace(recipe, training=replace(recipe.training, updates=9)))
    assert not (recipe.out / BUDGET).exists()
    assert read_recipe(recipe.out).training.updates == 9
    assert hashes(recipe.out) == hashes(run_with_recorded_numbers(recipe.out, tmp_path))


def test_a_run_that_is_killed_in_the_choice_is_as_if_it_were_not(tmp_path, monkeypatch):
    """After the number was written, and before the file that asks for it was deleted."""
    recipe, budgets = recipe_for(tmp_path, "trapezoid"), []

    class KilledError(Exception):
        pass

    def kill(path, unlink=Path.unlink, **options):
        if path.name == BUDGET:
            budgets.append(Budget.read(path.parent))
            raise KilledError
        unlink(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", kill)
        with pytest.raises(KilledError):
            run(recipe)
    assert budgets
    run(recipe)
    assert hashes(recipe.out) == hashes(run_with_recorded_numbers(recipe.out, tmp_path))


# ---- a time at which the run has ended


def soon(seconds):
    return (datetime.now() + timedelta(seconds=seconds)).isoformat()


@pytest.mark.short_form(1)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("updates", [None, 10**6])
def test_a_run_that_stops_at_a_time_has_the_updates_that_fit(tmp_path, schedule, updates):
    recipe, messages = recipe_for(tmp_path, schedule, minutes=None), []
    training = replace(recipe.training, updates=updates, stop_at=soon(1.5))
    with messages_to(messages.append):
        run(replace(recipe, training=training))
    chosen = read_recipe(recipe.out).training
    assert chosen.updates == read_run_result(recipe.out).updates < 10**6
    assert any("The run will have" in message for message in messages)


@pytest.mark.long
def test_a_run_with_time_enough_is_the_run_without_a_time(tmp_path):
    recipe = small_recipe(tmp_path, tmp_path / "run", schedule="trapezoid")
    later = replace(recipe, out=tmp_path / "later", training=replace(recipe.training, stop_at=soon(10**5)))
    assert hashes(run(recipe)) == hashes(run(later))


def test_a_time_that_has_passed_ends_no_run_that_has_begun(tmp_path, monkeypatch):
    recipe = small_recipe(tmp_path, tmp_path / "run")
    late = replace(recipe, training=replace(recipe.training, stop_at="2001-01-01T12:00"))
    with pytest.raises(DragomanError, match="2001-01-01T12:00:00.*, which has passed"):
        run(late)
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        with pytest.raises(TrainingInterruptedError):
            run(replace(recipe, training=replace(recipe.training, stop_at=soon(10**5))))
    assert read_recipe(recipe.out).training.stop_at is not None
    run(late)
    assert read_run_result(recipe.out).updates == recipe.training.updates
    assert read_recipe(recipe.out).training.stop_at is None


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), st.times())
def test_a_time_of_the_day_is_the_next_one(now, clock):
    named = moment(clock.isoformat(), now)
    assert timedelta(0) < named - now.astimezone() <= timedelta(days=1, hours=1)  # a day has 25 hours at most
    assert named.time() == clock
    assert moment(named.isoformat(), now) == named


@given(st.integers(1, 10**4), st.data())
def test_the_rate_of_a_shortened_run_falls_to_zero_from_where_it_is(updates, data):
    cooldown, step = data.draw(st.integers(1, updates)), data.draw(st.integers(1, updates))
    fewer = data.draw(st.integers(step, updates))
    training = TrainingSettings(
        updates=updates, warmup_steps=1, cooldown_steps=cooldown, schedule="trapezoid"
    )
    chosen = shortened(Recipe(training=training), fewer, step).training
    before, after = (make_learning_rate(each, 128) for each in (training, chosen))
    assert chosen.updates == fewer
    assert fewer < updates or chosen == training
    assert after(step) == pytest.approx(before(step), rel=1 / (fewer + 1 - step))
    assert all(after(each) <= 1.001 * before(each) for each in range(step + 1, fewer + 1, 1 + updates // 100))
    assert after(fewer + 1) == 0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_that_a_program_ends_has_its_updates_and_all_else_as_its_folder_says(tmp_path, schedule):
    """The folder may have fewer updates than the recipe in memory: a run with a time to stop is shortened."""
    recipe = recipe_for(tmp_path, schedule)
    recipe.out.mkdir()
    Budget(1.0, 0.0).write(recipe.out)
    is_trapezoid = schedule == "trapezoid"
    before, after = (
        replace(recipe.training, updates=updates, cooldown_steps=cooldown if is_trapezoid else None)
        for updates, cooldown in ((100, 50), (20, 5))
    )
    write_toml(replace(recipe, training=after), recipe.out / "recipe.toml")
    kept = read_recipe(recipe.out)
    for step in (12, 3):
        ended = end_at(step, replace(recipe, training=before), World())
        cooldown = kept.training.cooldown_steps and min(kept.training.cooldown_steps, step)
        expected = replace(kept.training, updates=step, cooldown_steps=cooldown)
        assert ended == read_recipe(recipe.out) == replace(kept, training=expected)
        assert not (recipe.out / BUDGET).exists()


def events_of(speed, slow, until, seconds, every, validation):
    """The log of a training at a constant speed, which is divided by `slow` up to `until` seconds.

    Until then the validations take `slow` times as long, too.
    """
    events, now, step, state = [], 0.0, 0, TrainingState()
    while now < seconds:
        step += 1
        now += (slow if now < until else 1.0) / speed
        state = TrainingState(step=step, seconds=now)
        if step % every == 0:
            duration = (slow if now < until else 1.0) * validation
            events.append({"event": "validation", "step": step, "minutes": now / 60, "seconds": duration})
            now += duration
    return state, events


@pytest.mark.long
@given(
    st.floats(0.5, 50),
    st.floats(1, 10),
    st.floats(0, 0.2),
    st.floats(0.05, 0.3),
    st.integers(180, 3000),
    st.floats(0, 0.01),
)
def test_the_chosen_updates_fill_the_minutes(speed, slow, until, preparation, seconds, validation):
    """At any speed, if the slow beginning is over when the last quarter of the updates so far begins."""
    budget = Budget(seconds, preparation * seconds)
    every = max(1, int(speed * seconds / 20))
    validation *= seconds
    state, events = events_of(speed, slow, until * seconds, 0.45 * budget.training, every, validation)
    before = [60 * event["minutes"] for event in events if event["step"] <= 0.75 * state.step]
    assume(until == 0 or max(before, default=0.0) >= until * seconds)
    updates = choose_updates(budget, state, events, every, 10**9, 4 * validation)
    rest = (updates - state.step) / speed + (updates // every - state.step // every) * validation
    end = (2 + 4) * validation * bool(events)
    assert budget.preparation + state.seconds + rest + end == pytest.approx(seconds, rel=0.06)


@given(st.floats(5, 20), st.integers(600, 1000), st.floats(0.002, 0.01), st.floats(0, 5))
def test_the_validations_and_the_test_data_at_the_end_have_their_time(speed, seconds, validation, test):
    """At a constant speed the time is kept but for an update and a validation."""
    budget, every = Budget(seconds, 0.1 * seconds), int(speed * seconds / 20)
    validation *= seconds
    state, events = events_of(speed, 1.0, 0.0, 0.45 * budget.training, every, validation)
    updates = choose_updates(budget, state, events, every, 10**9, test * validation)
    rest = (updates - state.step) / speed + (updates // every - state.step // every) * validation
    total = budget.preparation + state.seconds + rest + (2 + test) * validation
    assert total == pytest.approx(seconds, abs=validation + 2 / speed)


@given(st.floats(0.1, 2), st.integers(600, 1000), st.sampled_from(SCHEDULES))
def test_the_number_is_chosen_before_the_cooldown_begins(speed, seconds, schedule):
    budget, every = Budget(seconds, 0.1 * seconds), max(1, int(speed * seconds / 20))
    trained = share_before_choice(schedule) * budget.training
    state, events = events_of(speed, 1.0, 0.0, trained, every, 0.0)
    updates = choose_updates(budget, state, events, every, 10**9, 0.0)
    assert state.step < updates
    if schedule == "trapezoid":
        assert state.step <= updates - max(1, updates // 2)


VALIDATED = st.tuples(st.integers(1, 9), st.floats(0, 1000))


@given(st.lists(VALIDATED, max_size=9), st.floats(0.001, 1000), st.integers(1, 9), st.integers(1, 200))
def test_whatever_validations_took_there_is_one_more_update_and_no_more_than_the_most(
    validations, seconds, more, most
):
    """Also where their seconds are those of a process that was stopped, which the state has not."""
    step, events = 0, []
    for number, (updates, took) in enumerate(validations, 1):
        step += updates
        minutes = seconds * number / (len(validations) + 1) / 60
        events.append({"event": "validation", "step": step, "minutes": minutes, "seconds": took})
    state = TrainingState(step=step + more, seconds=seconds)
    chosen = choose_updates(Budget(100.0, 1.0), state, events, 3, state.step + most, 1.0)
    assert state.step < chosen <= state.step + most
    assert choose_updates(Budget(0.0, 0.0), state, events, 3, state.step + most, 1.0) == state.step + 1


def test_a_damaged_budget_is_named(tmp_path):
    for content in (
        "[",
        "[]",
        "{}",
        '{"seconds": "1", "preparation": 2}',
        '{"seconds": 1, "preparation": -2}',
    ):
        (tmp_path / BUDGET).write_text(content)
        with pytest.raises(DragomanError, match=r"budget\.json"):
            Budget.read(tmp_path)


def test_the_chosen_updates_have_the_bound_of_passes(tmp_path, monkeypatch):
    for module in ("minutes", "budget"):
        monkeypatch.setattr(f"dragoman.pipeline.{module}.MAX_PASSES", 2)
    recipe = recipe_for(tmp_path, "trapezoid", minutes=5)
    run(recipe)
    chosen = read_recipe(recipe.out)
    batches = make_batches(chosen, PreparedData.load(recipe.out / "data"), World())
    assert chosen.training.updates == 2 * len(batches.plan(0)) // chosen.batches.accumulate
    assert not (recipe.out / BUDGET).exists()


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_training_has_what_the_preparation_left_and_half_of_all_at_least(seconds, preparation):
    training = Budget(seconds, preparation).training
    assert training == pytest.approx(max(seconds - preparation, seconds / 2))


@given(st.floats(0.01, 1e5))
def test_an_adaptation_has_fewer_passes_than_a_training_from_the_start(updates_per_epoch):
    new = Recipe()
    adapted = replace(new, adaptation=AdaptationSettings(initial_model=Path("run")))
    passes = [most_updates(each, updates_per_epoch) / updates_per_epoch for each in (new, adapted)]
    assert passes[0] <= max(MAX_PASSES, 1 / updates_per_epoch)
    assert passes[1] <= max(PASSES_OF_ADAPTATION, 1 / updates_per_epoch)
    assert most_updates(adapted, updates_per_epoch) == max(1, int(PASSES_OF_ADAPTATION * updates_per_epoch))


@given(
    st.integers(1, 50), st.integers(1, 50), st.none() | st.integers(1, 100), st.integers(1, 500), st.data()
)
def test_before_the_choice_the_rate_is_that_of_any_number_of_updates_to_choose(
    warmup, estimate, cooldown, most, data
):
    """Up to the cooldown, and the training ends early enough for it."""
    settings = TrainingSettings(updates=estimate, warmup_steps=warmup, schedule="trapezoid")
    recipe = Recipe(training=replace(settings, cooldown_steps=cooldown))
    begun, schedule = open_ended(recipe, Schedule(estimate, warmup, 1, 1), most)
    assert schedule.updates == max(1, most - (most // 2 if cooldown is None else cooldown))
    chosen = data.draw(st.integers(1, most))
    last = chosen - (cooldown or max(1, chosen // 2))
    rates = [
        make_learning_rate(training, 128, None)
        for training in (
            begun.training,
            with_cooldown(
                replace(recipe, training=replace(settings, updates=chosen, cooldown_steps=cooldown))
            ).training,
        )
    ]
    for step in range(1, min(last, schedule.updates) + 1):
        assert rates[0](step) == pytest.approx(rates[1](step))
