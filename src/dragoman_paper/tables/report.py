"""From results of cells to a table: means and spreads over seeds, differences from the first row, verdicts.

Spread is the standard deviation over seeds. A difference from the first row is that of two runs with the same
seed, so that what a seed does to all rows cancels; it is within the spread if the mean of the differences is
at most their standard deviation. The paper trained each row once and gives no spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean, stdev

from dragoman.evaluation.compare import bleu_p_value
from dragoman.system.errors import DragomanError
from dragoman_paper.tables.cells import Result, cell_lines
from dragoman_paper.tables.rows import Row, describe, describe_base
from dragoman_paper.tables.runner import Request

ONE_SEED, WITHIN, SAME, OPPOSITE = "one seed", "within the spread", "same direction", "opposite direction"
VALIDATION = "hypotheses.txt", "run/data/valid.target.txt"
"""Translations and references of the validation data, in a cell's folder."""
NO_DIFFERENCE, NEW_DIFFERENCE, NOT_IN_PAPER = "no difference, as in the paper", "differs", "not in the paper"


@dataclass(frozen=True)
class Measure:
    """A measure of a row over its seeds, and its difference from the first row's, here and in the paper."""

    values: list[float]
    """One a seed."""
    mean: float
    spread: float | None
    """None with one seed."""
    difference: float
    """The mean over seeds of the difference from the first row with the same seed."""
    difference_spread: float | None
    """Of these differences; None with one seed."""
    paper: float | None
    paper_difference: float | None
    verdict: str
    p_value: float | None = None
    """Of the difference, by paired bootstrap over sentences; None of perplexity."""


@dataclass(frozen=True)
class TableLine:
    """A row of the table."""

    row: str
    settings: str
    parameters: int
    paper_parameters: int | None
    """In millions, of the paper's size."""
    minutes: float
    """Of training, the mean over seeds."""
    perplexity: Measure
    bleu: Measure


def spread_of(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample; None of a single value."""
    return stdev(values) if len(values) > 1 else None


def verdict(difference: float, spread: float | None, paper_difference: float | None) -> str:
    """The direction of a difference beside the paper's, or that the spread cannot tell."""
    if paper_difference is None:
        return NOT_IN_PAPER
    if spread is None:
        return ONE_SEED
    is_within = abs(difference) <= spread
    if paper_difference == 0:
        return NO_DIFFERENCE if is_within else NEW_DIFFERENCE
    return WITHIN if is_within else SAME if (difference > 0) == (paper_difference > 0) else OPPOSITE


def measure(values: list[float], base: list[float], paper: float | None, paper_base: float | None) -> Measure:
    """A measure of one row beside the first row's; values are one per seed, of the same seeds."""
    differences = [value - base_value for value, base_value in zip(values, base, strict=True)]
    difference, spread = mean(differences), spread_of(differences)
    theirs = None if paper is None or paper_base is None else round(paper - paper_base, 4)
    comparison = verdict(difference, spread, theirs)
    return Measure(values, mean(values), spread_of(values), difference, spread, paper, theirs, comparison)


def lines_by_seed(request: Request, row: Row, file: str) -> list[list[str]]:
    """The lines of a file of a row's cells, for each seed."""
    folders = (request.folder / row.name / f"seed-{seed}" for seed in range(1, request.seeds + 1))
    return [cell_lines(folder, file) for folder in folders]


def bootstrap_p_value(request: Request, row: Row, translations: str, references: str) -> float:
    """The p-value of a row's BLEU beside the first row's, from files in the folders of their cells.

    Lines are resampled, each with its translations of all seeds.
    """
    first = request.rows[0]
    lines, base_lines = (lines_by_seed(request, compared_row, translations) for compared_row in (row, first))
    return bleu_p_value(lines, base_lines, lines_by_seed(request, first, references)[0])


def table_lines(request: Request, results: Sequence[Result]) -> list[TableLine]:
    """The rows of the table, the first one first.

    Raises `DragomanError` if scores are of different measures.
    """
    signatures = {result.signature for result in results}
    if len(signatures) > 1:
        raise DragomanError(
            f"The cells' BLEU has different signatures ({', '.join(sorted(signatures))}), as of different "
            "versions of sacreBLEU: they cannot be compared. Choose another --out."
        )
    by_row = {row.name: [result for result in results if result.row == row.name] for row in request.rows}
    first = request.rows[0]
    return [line_of(request, row, by_row[row.name], by_row[first.name]) for row in request.rows]


def line_of(request: Request, row: Row, results: list[Result], base_results: list[Result]) -> TableLine:
    """One row of the table."""
    first, scale = request.rows[0], request.scale
    perplexities, scores = (
        measure(
            [getattr(result, name) for result in results],
            [getattr(result, name) for result in base_results],
            getattr(row, name),
            getattr(first, name),
        )
        for name in ("perplexity", "bleu")
    )
    if row is not first:
        scores = replace(scores, p_value=bootstrap_p_value(request, row, *VALIDATION))
    return TableLine(
        row.name,
        describe_base(scale, row) if row is first else describe(row, scale, first),
        results[0].parameters,
        row.parameters,
        mean(result.minutes for result in results),
        perplexities,
        scores,
    )
