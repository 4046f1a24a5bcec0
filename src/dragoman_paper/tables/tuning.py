"""The cells of baselines: short trials of every row, a choice by validation data, then several seeds."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.system.torchrun import process_count
from dragoman.text.settings import DataSettings
from dragoman_paper.tables.baselines import (
    CLIP_NORM,
    TRIAL_SHARE,
    TRIALS,
    VALIDATIONS,
    Trial,
    without_test,
)
from dragoman_paper.tables.cells import Cell, Result, make_cell
from dragoman_paper.tables.measures import Measures, measure_cell
from dragoman_paper.tables.rows import Row, Scale
from dragoman_paper.tables.runner import Request, find_texts, run_cells

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tuned:
    """All that the page is made of."""

    trials: list[Result]
    """In the order of rows, and of `TRIALS` for each."""
    chosen: dict[str, Trial]
    """By row."""
    results: list[Result]
    measures: list[Measures]
    """One for each result."""


def tuned(recipe: Recipe, trial: Trial) -> Recipe:
    """The recipe with a trial's settings. The peak of equation 3 is (d_model · warmup_steps)^-0.5."""
    training, model = recipe.training, recipe.model
    assert training.warmup_steps is not None
    scale = trial.peak * sqrt(model.d_model * training.warmup_steps)
    return replace(
        recipe,
        model=replace(model, dropout=trial.dropout),
        training=replace(training, learning_rate_scale=round(scale, 6), clip_norm=CLIP_NORM),
    )


def shortened(scale: Scale) -> Scale:
    """The scale of a trial."""
    return replace(
        scale, updates=scale.updates // TRIAL_SHARE, warmup_steps=scale.warmup_steps // TRIAL_SHARE
    )


def trial_cells(request: Request, data: DataSettings) -> list[Cell]:
    """The trials of all rows, row by row."""
    scale, folder = shortened(request.scale), request.folder / "trials"
    return [
        make_cell(
            folder,
            f"{row.name}/{trial.name}",
            1,
            tuned(scale.recipe(row, 1, without_test(data)), trial),
        )
        for row in request.rows
        for trial in TRIALS
    ]


def final_recipe(scale: Scale, row: Row, seed: int, data: DataSettings, trial: Trial) -> Recipe:
    """The recipe of a row with the settings that were chosen for it."""
    recipe = tuned(scale.recipe(row, seed, data), trial)
    interval = max(1, scale.updates // VALIDATIONS)
    return replace(recipe, training=replace(recipe.training, validate_every=interval))


def choose(rows: Sequence[Row], trials: Sequence[Result]) -> dict[str, Trial]:
    """For each row the trial with the lowest negative log-likelihood of the validation data."""
    count, chosen = len(TRIALS), {}
    for place, row in enumerate(rows):
        row_trials = trials[place * count : (place + 1) * count]
        losses = [result.nll for result in row_trials]
        chosen[row.name] = TRIALS[losses.index(min(losses))]
    return chosen


def run_baselines(request: Request) -> Tuned:
    """Run the trials and the trainings that are missing, and measure the models.

    Raises `DragomanError` as `run_table`, and in one of several processes of torchrun.
    """
    if process_count() > 1:
        raise DragomanError(
            "baselines measures the speed of a single process, and torchrun has started several; start it "
            "without torchrun."
        )
    data, title = find_texts(request.scale, request.data), request.table.title
    trials = run_cells(request, trial_cells(request, data), f"{title}: trials")
    chosen = choose(request.rows, trials)
    for name, trial in chosen.items():
        logger.info(
            f"{name}: chosen of {len(TRIALS)} trials: peak {trial.peak:g}, dropout {trial.dropout:g}."
        )
    cells = [
        make_cell(
            request.folder,
            row.name,
            seed,
            final_recipe(request.scale, row, seed, data, chosen[row.name]),
        )
        for seed in range(1, request.seeds + 1)
        for row in request.rows
    ]
    results = run_cells(request, cells, title, measure_cell)
    measures = [measure_cell(cell) for cell in cells]  # also of cells that an earlier version scored
    return Tuned(trials, chosen, results, measures)
