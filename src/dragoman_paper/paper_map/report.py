"""A model beside the paper, as data: parameters, cost, departures. Does not import torch."""

from dataclasses import dataclass
from typing import Any

from dragoman.model.costs import (
    Counts,
    count_parameters,
    multiply_adds_by_part,
    multiply_adds_per_target_token,
    parameters_by_part,
)
from dragoman.model.settings import ModelSettings
from dragoman_paper.paper_map.departures import FIXED, Departure, departures
from dragoman_paper.paper_map.subject import Subject
from dragoman_paper.paper_map.toolkits import DIFFERENCES, Difference
from dragoman_paper.tables.published import (
    FLOPS_PER_MULTIPLY_ADD,
    FORWARD_AND_BACKWARD,
    FRENCH_BLEU,
    PAPER_GPUS,
    PAPER_TOKENS,
    PAPER_VOCABULARY,
    TABLE_2,
    TRAINING_RUNS,
    estimated_flops,
)
from dragoman_paper.tables.rows import Row
from dragoman_paper.tables.table3 import TABLE3


@dataclass(frozen=True)
class ParameterRow:
    """A row of Table 3: its parameters here and in the paper, in millions there."""

    row: str
    ours: int
    """With the paper's 37,000 tokens."""
    paper: int
    explained_by: tuple[int, int]
    """The fewest and most tokens of vocabulary whose parameters round to the paper's figure."""


@dataclass(frozen=True)
class TrainingCost:
    """The cost of a training: counted from shapes, and as the paper estimates it from time."""

    length: int
    """Tokens of a sentence, on either side, END included."""
    by_part: Counts
    """Multiply-adds of one forward pass over a sentence pair."""
    per_target_token: float
    updates: int
    tokens: int
    """Target tokens of an update, and as many source tokens."""
    counted_flops: float
    hours: float | None
    gpus: int
    estimated_flops: float | None
    """None where nobody has said how long it takes."""
    printed_flops: float | None
    """What Table 2 says of base and big."""


@dataclass(frozen=True)
class Report:
    """All that `dragoman paper` shows."""

    name: str
    row: str | None
    """The row of Table 3 whose model and label smoothing these are."""
    source_vocabulary: int
    target_vocabulary: int
    parameters: Counts
    paper_parameters: int | None
    table_3: list[ParameterRow]
    cost: TrainingCost
    departures: list[Departure]
    fixed: tuple[tuple[str, str, str], ...]
    toolkits: tuple[Difference, ...]
    bleu: dict[str, tuple[float, float]]
    """On newstest2014, English to German and to French (Table 2)."""
    french: str


def explaining_vocabulary(settings: ModelSettings, millions: int) -> tuple[int, int]:
    """The smallest and the largest vocabulary with which the model's parameters round to `millions`."""
    per_token = count_parameters(settings, 2, 2) - count_parameters(settings, 1, 1)
    others = count_parameters(settings, 1, 1) - per_token
    fewest, most = ((millions + half) * 1_000_000 - others for half in (-0.5, 0.5))
    return -int(-fewest // per_token), int(most // per_token)


def parameter_rows() -> list[ParameterRow]:
    """The rows of Table 3 for which the paper has a number of parameters."""
    return [
        ParameterRow(
            row.name,
            count_parameters(row.model, PAPER_VOCABULARY, PAPER_VOCABULARY),
            row.parameters,
            explaining_vocabulary(row.model, row.parameters),
        )
        for row in TABLE3.rows
        if row.parameters is not None
    ]


def row_of(subject: Subject) -> Row | None:
    """The row of Table 3 with this model and label smoothing."""
    recipe = subject.recipe
    settings = recipe.model, recipe.training.label_smoothing
    return next((row for row in TABLE3.rows if (row.model, row.label_smoothing) == settings), None)


def cost_of(
    subject: Subject, length: int, updates: int | None, tokens: int | None, hours: float | None, gpus: int
) -> TrainingCost:
    """The cost of a training; what is None is the recipe's, or the paper's."""
    model, recipe = subject.recipe.model, subject.recipe
    paper = TRAINING_RUNS.get(subject.name)
    updates = updates or recipe.training.updates or (paper.updates if paper else 100_000)
    batch = (recipe.batches.target_tokens_per_batch or PAPER_TOKENS) * recipe.batches.accumulate
    tokens = tokens or batch
    multiply_adds = multiply_adds_per_target_token(model, subject.target_vocabulary, length)
    if hours is None and paper is not None:
        hours = paper.hours
    return TrainingCost(
        length,
        multiply_adds_by_part(model, subject.target_vocabulary, length, length),
        multiply_adds,
        updates,
        tokens,
        multiply_adds * FLOPS_PER_MULTIPLY_ADD * FORWARD_AND_BACKWARD * tokens * updates,
        hours,
        gpus,
        None if hours is None else estimated_flops(hours, gpus),
        None if paper is None else paper.flops,
    )


def report_on(
    subject: Subject,
    length: int,
    updates: int | None = None,
    tokens: int | None = None,
    hours: float | None = None,
    gpus: int = PAPER_GPUS,
) -> Report:
    """The report."""
    settings = subject.recipe.model
    row = row_of(subject)
    return Report(
        subject.name,
        None if row is None else row.name,
        subject.source_vocabulary,
        subject.target_vocabulary,
        parameters_by_part(settings, subject.source_vocabulary, subject.target_vocabulary),
        None if row is None else row.parameters,
        parameter_rows(),
        cost_of(subject, length, updates, tokens, hours, gpus),
        departures(subject.recipe),
        FIXED,
        DIFFERENCES,
        TABLE_2,
        FRENCH_BLEU,
    )


def as_table(report: Report) -> dict[str, Any]:
    """The report as JSON has it; departures and differences as tables with names."""
    from dataclasses import asdict

    table = asdict(report)
    table["departures"] = [departure._asdict() for departure in report.departures]
    table["toolkits"] = [toolkit._asdict() for toolkit in report.toolkits]
    return table
