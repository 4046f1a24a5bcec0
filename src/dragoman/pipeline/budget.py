"""The number of updates that fit into the minutes of a recipe, chosen from the training itself.

A run begins with an estimated number. Its learning rate does not depend on that number before the cooldown,
so the number is chosen late, from the speed so far. Until then the run has the file `budget.json`.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.pipeline.minutes import AT_THE_END, MAX_PASSES, PAPER_UPDATES
from dragoman.pipeline.recipe import Recipe
from dragoman.system.clock import seconds_until
from dragoman.system.files import write_lines
from dragoman.system.readers import read_json
from dragoman.system.toml import check_bounds, from_table
from dragoman.training.checkpoint import TrainingState
from dragoman.training.settings import Schedule, ScheduleName

BUDGET = "budget.json"
RESERVE = 0.02  # of the time until `stop_at`


@dataclass(frozen=True)
class Budget:
    """Seconds of a run."""

    seconds: float
    """All that it may take."""
    preparation: float
    """Those before the first update."""

    def write(self, out: Path) -> None:
        """Write `budget.json`."""
        write_lines(out / BUDGET, [json.dumps(vars(self))])

    def __post_init__(self) -> None:
        names = ("seconds", "preparation")
        check_bounds(self, at_least=dict.fromkeys(names, 0), at_most=dict.fromkeys(names, 10**10))

    @classmethod
    def read(cls, out: Path) -> "Budget":
        """Read `budget.json`. Raises `DragomanError` if it is damaged."""
        return from_table(cls, read_json(out / BUDGET), str(out / BUDGET))

    @property
    def training(self) -> float:
        """Seconds from the first update to the end: half of all at least, however long the preparation."""
        return max(self.seconds / 2, self.seconds - self.preparation)


def budget_until(stop_at: str, done: float) -> Budget:
    """The budget of a run that has trained for `done` seconds and ends at a time of the clock.

    A fiftieth of the time until then is kept back.
    """
    return Budget(done + (1 - RESERVE) * max(0.0, seconds_until(stop_at)), preparation=0)


def shortened(recipe: Recipe, updates: int, step: int) -> Recipe:
    """The recipe with fewer updates, of which `step` are done.

    A trapezoid falls from its rate at this step to zero, or begins to fall later if there is time enough.
    """
    training = recipe.training
    planned, cooldown = training.updates, training.cooldown_steps
    assert planned is not None
    if training.schedule != "trapezoid" or cooldown is None:
        return replace(recipe, training=replace(training, updates=updates))
    left, planned_left = updates + 1 - step, planned + 1 - step
    steps = min(cooldown, round(left * max(1.0, (cooldown + 1) / planned_left)) - 1)
    return replace(recipe, training=replace(training, updates=updates, cooldown_steps=max(1, steps)))


def share_before_choice(schedule: ScheduleName | None) -> float:
    """The share of the time after which the number is chosen: before the cooldown of a trapezoid."""
    return 0.45 if schedule == "trapezoid" else 0.85


def open_ended(recipe: Recipe, schedule: Schedule, most: int) -> tuple[Recipe, Schedule]:
    """Recipe and schedule of the training before the choice: the learning rate does not fall to zero.

    `most` is the number of updates that the run may have at most.
    """
    training = replace(recipe.training, updates=None)
    cooldown = (training.cooldown_steps or most // 2) if training.schedule == "trapezoid" else 0
    return replace(recipe, training=training), replace(schedule, updates=max(1, most - cooldown))


def choose_updates(
    budget: Budget,
    state: TrainingState,
    events: list[dict[str, Any]],
    every: int,
    most: int,
    test_seconds: float,
) -> int:
    """The number of updates for which the time suffices, at the speed of the last quarter so far.

    `events` are those of the log, with a validation every `every` updates; the translation of the test data
    takes `test_seconds`. At most `most`, and one more than those that are done.
    """
    validations = [event for event in events if event["event"] == "validation" and event["step"] > 0]
    # The beginning is slower, because kernels are compiled, and perhaps because another program ran. The
    # first validations are slower, because a model that has learned little ends few translations: the last
    # one says what those that follow take.
    points = [(0, 0.0), *((event["step"], 60 * event["minutes"]) for event in validations)]
    step, seconds = [point for point in points if point[0] <= 0.75 * state.step][-1]
    validating = sum(event["seconds"] for event in validations if step <= event["step"] < state.step)
    validation = validations[-1]["seconds"] if validations else 0.0
    elapsed = state.seconds - seconds  # it lacks a validation after which the run was interrupted
    update = (elapsed - min(validating, 0.9 * elapsed)) / (state.step - step)
    left = budget.training - state.seconds - AT_THE_END * validation - test_seconds
    return min(most, state.step + max(1, int(left / (update + validation / every))))


def most_updates(recipe: Recipe, updates_per_epoch: float) -> int:
    """The most updates that are chosen: the paper's 100,000, or so many passes over the corpus."""
    if recipe.adaptation.initial_model is not None:
        from dragoman.pipeline.adaptation.initial_model import MAX_PASSES as PASSES_OF_ADAPTATION

        return max(1, int(PASSES_OF_ADAPTATION * updates_per_epoch))
    return max(1, int(min(PAPER_UPDATES, MAX_PASSES * updates_per_epoch)))
