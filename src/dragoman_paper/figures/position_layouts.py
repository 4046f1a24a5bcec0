"""Positions in both layouts, and their dot products (section 3.5). This module imports no torch."""

import numpy as np

from dragoman.inspection.views.drawing import Drawing, diverging
from dragoman.inspection.views.layout import draw_levels, finished
from dragoman.model.settings import ModelSettings
from dragoman.model.sinusoids import Table, sinusoid_table

POSITIONS, ROW = 20, 9
PAIRS = 40
"""Positions whose dot products are drawn."""


def position_layouts(model: ModelSettings) -> str:
    """The first positions with sine and cosine alternating, with all sines first, and their dot products."""
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
    draw_table(drawing, title, "position", products(PAIRS, d_model), ROW)
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


def products(positions: int, d_model: int) -> Table:
    """[N, N]: dot products of the rows of the paper's table, divided by that of a row with itself."""
    table = sinusoid_table(positions, d_model)
    dot_products: Table = table @ table.T
    return dot_products / dot_products[0, 0]


def draw_table(drawing: Drawing, title: str, across: str, numbers: Table, width: float) -> None:
    """Numbers below what is drawn: a row for each position, cells of this width."""
    rows, columns = numbers.shape
    left, top = 52.0, drawing.height + 54
    drawing.text(16, top - 26, title, 13, bold=True)
    drawing.text(left, top - 8, f"{across} →", 11, "fill-faint")
    for row in range(0, rows, 5):
        drawing.text(left - 8, top + row * ROW + 9, str(row), 11, "fill-faint", "end")
    with drawing.group("cells", f"{title}: rows are positions, columns are {across}s"):
        drawing.rectangle(left, top, width * columns, ROW * rows, "fill-zero stroke-line")
        draw_levels(drawing, numbers, diverging, left, top, width, ROW)
    for place in sorted({0, columns // 2, columns - 1}):
        x = left + (place + 0.5) * width
        drawing.text(x, top + rows * ROW + 16, str(place), 11, "fill-faint", "middle")
