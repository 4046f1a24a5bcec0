"""The page of learning curves, as table.json and table.md."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import mean
from typing import Any

from dragoman.pipeline.passport import origin
from dragoman.system.wording import counted
from dragoman_paper.tables.baselines import TITLES
from dragoman_paper.tables.baselines_page import quantity, shown
from dragoman_paper.tables.cells import Result
from dragoman_paper.tables.curve_cells import CurvePoint
from dragoman_paper.tables.learning_curves import PATIENCE, SETTINGS, VALIDATIONS, vocabulary
from dragoman_paper.tables.runner import Request
from dragoman_paper.tables.table_files import table, write_table

PICTURE = "curves.svg"


def write_curves(request: Request, points: Sequence[CurvePoint]) -> str:
    """Write table.json and table.md to the table's folder; returns the latter's text."""
    content = {
        "table": request.table.name,
        "scale": request.scale.name,
        "seeds": request.seeds,
        "signature": points[0].results[0].signature,
        "not_run": request.not_run,
        "points": [
            {
                "row": point.row,
                "pairs": point.pairs,
                "vocabulary": vocabulary(request.scale, point.pairs),
                "bleu": asdict(quantity(point.bleu)),
                "results": [asdict(result) for result in point.results],
            }
            for point in points
        ],
    }
    return write_table(request.folder, content, markdown(request, points))


def written_points(contents: Sequence[Mapping[str, Any]]) -> list[CurvePoint]:
    """The points of cells, from the contents of each cell's result.json; a size may have fewer seeds."""
    results = [Result(**content) for content in contents]
    points = []
    for name in dict.fromkeys(result.row for result in results):
        row, _, pairs = name.partition("/")
        points.append(CurvePoint(row, int(pairs), [result for result in results if result.row == name]))
    return sorted(points, key=lambda point: (point.pairs, [*TITLES].index(point.row)))


def markdown(request: Request, points: Sequence[CurvePoint]) -> str:
    """The page."""
    scale, left = request.scale, request.not_run
    parts = [
        f"# {request.table.title} ({scale.name})",
        f"{scale.about}. {scale.updates:,} updates at most of {scale.tokens:,} source and {scale.tokens:,} "
        f"target tokens, with every size of the corpus. The picture is {PICTURE}.",
        *([f"Rows that were not run: {', '.join(left)}."] if left else []),
        scores(points),
        "## Parameters",
        by_size(points, lambda point: f"{point.results[0].parameters:,}"),
        method(request, points),
    ]
    return "\n\n".join(parts)


def scores(points: Sequence[CurvePoint]) -> str:
    """BLEU of each row by the size of the corpus."""
    return by_size(points, lambda point: shown(quantity(point.bleu)))


def by_size(points: Sequence[CurvePoint], text: Callable[[CurvePoint], str]) -> str:
    """A table with a line for each size of corpus and a column for each row, blank without a cell."""
    rows, lines = dict.fromkeys(point.row for point in points), []
    for size in dict.fromkeys(point.pairs for point in points):
        points_by_row = {point.row: point for point in points if point.pairs == size}
        tokens = next(iter(points_by_row.values())).results[0].settings["tokenizer"]["vocabulary"]
        cells = [text(points_by_row[row]) if row in points_by_row else "" for row in rows]
        lines.append([f"{size:,}", f"{tokens:,}", *cells])
    return table(["pairs", "vocabulary", *(TITLES[row] for row in rows)], lines)


def method(request: Request, points: Sequence[CurvePoint]) -> str:
    """How to read the page, and the passport of its results."""
    results = [result for point in points for result in point.results]
    origins, seeds = origin([result.passport for result in results]), counted(request.seeds, "seed")
    minutes = mean(result.minutes for result in results)
    return f"""\
## Method

- BLEU of the validation data, the same for all sizes, by beam search as in section 6.1; {seeds}, mean ±
  standard deviation; `{results[0].signature}`.
- Corpora: the first pairs in one drawn order, so that each contains the smaller ones; all seeds have the
  same. The vocabulary is learned from the smaller corpus alone: 40 · √pairs tokens, at most
  {request.scale.vocabulary:,}. Parameters therefore grow with the corpus.
- Updates, not passes, are the same for all sizes: with the same passes little text would be trained too
  short. There are {VALIDATIONS} validations; the model with the lowest validation loss is kept, or the last
  one if its perplexity is lower, and training ends after {PATIENCE} validations without a lower loss.
- Every row and size: peak of the learning rate {SETTINGS.peak:g}, dropout {SETTINGS.dropout:g}. More dropout
  would suit little text; nothing is tuned here.
- {origins}; {minutes:.1f} minutes of training a cell. table.json has each cell's passport.
"""
