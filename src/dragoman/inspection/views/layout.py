"""What pictures share: labels, matrices as cells, and notes at the foot. This module imports no torch."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.inspection.views.drawing import Drawing, Shade, cell_paths

if TYPE_CHECKING:
    from dragoman.inspection.record.record import Record

SHARE_TICKS = [(0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1")]
"""The ticks of a legend for shares, numbers from 0 to 1, with their labels."""


def sentences(inspection: "Record") -> str:
    """The sentence and its translation, for a picture's description."""
    return f"Sentence: {inspection.sentence} Translation: {inspection.translation}"


def finished(drawing: Drawing, notes: Sequence[str]) -> str:
    """The SVG of a drawing, after the notes are written at its foot. Empty notes are left out."""
    y = drawing.height + 26
    for note in notes:
        y = drawing.paragraph(16, y, note)
    return drawing.svg()


def label_axes(
    drawing: Drawing, rows: Sequence[str], columns: Sequence[str], left: float, top: float, cell: float
) -> None:
    """Write labels to the left of rows and above columns of cells that begin at `left` and `top`."""
    for row, label in enumerate(rows):
        drawing.label(left - 8, top + (row + 0.5) * cell + 4, label, anchor="end")
    for column, label in enumerate(columns):
        drawing.label(left + (column + 0.5) * cell + 3, top - 8, label, turn=-60)


def draw_cells(
    drawing: Drawing,
    numbers: npt.NDArray[np.float32],
    rows: Sequence[str],
    columns: Sequence[str],
    scale: Callable[[float], Shade],
    title: Callable[[int, int], str],
    left: float,
    top: float,
    css: str,
) -> float:
    """Draw a matrix with the labels of its rows and columns. Returns the size of a cell.

    `title` is that of a cell, of which it is given the row and the column.
    """
    cell = 24 if max(numbers.shape) <= 30 else 16
    label_axes(drawing, rows, columns, left, top, cell)
    drawing.rectangle(left, top, cell * len(columns), cell * len(rows), "fill-zero stroke-line")
    with drawing.group(f"cells {css}"):
        for row, column in np.ndindex(numbers.shape):
            shade, x, y = scale(float(numbers[row, column])), left + column * cell, top + row * cell
            drawing.rectangle(x, y, cell, cell, shade.css, title(row, column), opacity=shade.opacity)
    return cell


def draw_levels(
    drawing: Drawing,
    numbers: npt.NDArray[np.float32],
    scale: Callable[[float], Shade],
    x: float,
    y: float,
    width: float,
    height: float,
) -> None:
    """Draw a matrix [rows columns] as cells of this size, of which x and y are the first one's corner.

    Numbers are rounded to two decimals, so that all cells with the same number can be one path. NaN is 0.
    """
    levels = (np.nan_to_num(numbers).astype(np.float64).round(2) + 0.0).tolist()  # + 0.0: no level is -0
    for level, data in sorted(cell_paths(levels, x, y, width, height).items()):
        shade = scale(level)
        drawing.path(data, shade.css, opacity=shade.opacity)
