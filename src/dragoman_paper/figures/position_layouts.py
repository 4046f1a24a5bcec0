"""Sinusoids of positions in both layouts, or a learned table, and dot products (section 3.5).

Imports no torch.
"""

from collections.abc import Mapping

import numpy as np

from dragoman.inspection.views.drawing import Drawing, diverging
from dragoman.inspection.views.layout import draw_levels, finished
from dragoman.model.settings import ModelSettings
from dragoman.model.sinusoids import Table, sinusoid_table

POSITIONS = 20  # whose encodings are drawn
DOT_PRODUCT_POSITIONS = 40  # whose dot products with each other are drawn
ROW_HEIGHT = 9  # pixels


def position_layouts(model: ModelSettings) -> str:
    """SVG of the first positions, once with alternating sines and cosines and once with all sines first.

    Below them are the dot products of positions.
    """
    d_model = model.d_model
    drawing = Drawing(
        "position-layouts",
        f"Positions 0 to {POSITIONS - 1} in both layouts, d_model = {d_model}",
        "Rows are positions; columns are dimensions, and in the last table positions. Blue is positive and "
        "orange is negative.",
    )
    interleaved, halves = (
        sinusoid_table(POSITIONS, d_model, kind) for kind in ("sinusoidal", "sinusoidal-halves")
    )
    width = max(1.0, min(8.0, 640 / d_model))
    title = "Interleaved: sine in even and cosine in odd dimensions (the paper)"
    draw_table(drawing, title, "dimension", interleaved, width)
    draw_table(drawing, "In halves: all sines, then all cosines", "dimension", halves, width)
    title = "Dot products of two positions, as shares of that of a position with itself"
    draw_table(drawing, title, "position", products(DOT_PRODUCT_POSITIONS, d_model), ROW_HEIGHT)
    ticks = [(-1.0, "−1"), (0.0, "0"), (1.0, "1")]
    drawing.legend(52, drawing.height + 20, "number in a table (no unit)", diverging, ticks)
    same = "The first two tables hold the same numbers: only the order of the dimensions differs."
    tensor2tensor = sinusoid_table(POSITIONS, d_model, "sinusoidal-tensor2tensor")
    most = float(np.abs(tensor2tensor - halves).max())
    other = (
        "Tensor2Tensor, the authors' code, has halves and slightly longer steps between wavelengths; "
        f"in these rows its numbers differ from the second table's by at most {most:.3g}."
    )
    distance = (
        "A dot product depends on the distance alone: each diagonal is one number. It falls with the "
        "distance, but not at every step."
    )
    return finished(drawing, [same, other, distance, f"The model's positions: {model.positions}."])


def learned_positions(tables: Mapping[str, Table]) -> str:
    """SVG of the first rows of learned tables [N D], each with the dot products of its positions."""
    d_model = next(iter(tables.values())).shape[1]
    drawing = Drawing(
        "learned-positions",
        f"Learned positions of this model, d_model = {d_model}",
        "Rows are positions; columns are dimensions, and in tables of dot products positions. Blue is "
        "positive and orange is negative.",
    )
    for side, table in tables.items():
        rows, many = table[:POSITIONS], table[:DOT_PRODUCT_POSITIONS]
        most, dot_products = float(np.abs(rows).max()) or 1.0, many @ many.T
        title = f"{side}: as shares of the largest number here, {most:.3g}"
        draw_table(drawing, title, "dimension", rows / most, max(1.0, min(8.0, 640 / d_model)))
        title = f"{side}: dot products of two positions, as shares of the largest"
        largest = float(np.abs(dot_products).max()) or 1.0
        draw_table(drawing, title, "position", dot_products / largest, ROW_HEIGHT)
    ticks = [(-1.0, "−1"), (0.0, "0"), (1.0, "1")]
    drawing.legend(52, drawing.height + 20, "share of the largest number", diverging, ticks)
    rest = "Each row is learned by itself: the first positions occur in every sentence, the last ones in few."
    return finished(drawing, [rest, "Without a run, this figure shows the paper's sinusoids."])


def products(positions: int, d_model: int) -> Table:
    """Dot products [N N] of the paper's encodings of N positions, divided by that of a position with itself.

    All positions have the same dot product with themselves.
    """
    table = sinusoid_table(positions, d_model)
    dot_products: Table = table @ table.T
    return dot_products / dot_products[0, 0]


def draw_table(drawing: Drawing, title: str, across: str, numbers: Table, width: float) -> None:
    """Draw numbers [rows columns] below what has been drawn, as cells of this width.

    Rows are positions; `across` says what a column is.
    """
    rows, columns = numbers.shape
    left, top = 52.0, drawing.height + 54
    drawing.text(16, top - 26, title, 13, bold=True)
    drawing.text(left, top - 8, f"{across} →", 11, "fill-faint")
    for row in range(0, rows, 5):
        drawing.text(left - 8, top + row * ROW_HEIGHT + 9, str(row), 11, "fill-faint", "end")
    with drawing.group("cells", f"{title}: rows are positions, columns are {across}s"):
        drawing.rectangle(left, top, width * columns, ROW_HEIGHT * rows, "fill-zero stroke-line")
        draw_levels(drawing, numbers, diverging, left, top, width, ROW_HEIGHT)
    for place in sorted({0, columns // 2, columns - 1}):
        x = left + (place + 0.5) * width
        drawing.text(x, top + rows * ROW_HEIGHT + 16, str(place), 11, "fill-faint", "middle")
