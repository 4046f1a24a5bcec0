"""The table of positions in both layouts (section 3.5). This module imports no torch."""

import numpy as np

from dragoman.inspection.drawing import Drawing, diverging
from dragoman.inspection.layout import draw_levels, finished
from dragoman.model.settings import ModelSettings, PositionKind
from dragoman.model.sinusoids import Table, sinusoid_table

POSITIONS, ROW = 20, 9


def position_layouts(model: ModelSettings) -> str:
    """The first positions with sine and cosine alternating, and with all sines first."""
    d_model = model.d_model
    drawing = Drawing(
        "position-layouts",
        f"Positions 0 to {POSITIONS - 1} in both layouts, d_model = {d_model}",
        "Rows are positions, columns are dimensions; blue is positive and orange is negative.",
    )
    draw_table(
        drawing, "Interleaved: sine in even and cosine in odd dimensions (the paper)", "sinusoidal", d_model
    )
    draw_table(drawing, "In halves: all sines, then all cosines", "sinusoidal-halves", d_model)
    ticks = [(-1.0, "−1"), (0.0, "0"), (1.0, "1")]
    drawing.legend(52, drawing.height + 20, "number in the table (no unit)", diverging, ticks)
    same = "Both tables hold the same numbers: only the order of the dimensions differs."
    tensor2tensor = sinusoid_table(POSITIONS, d_model, "sinusoidal-tensor2tensor")
    halves = sinusoid_table(POSITIONS, d_model, "sinusoidal-halves")
    most = float(np.abs(tensor2tensor - halves).max())
    other = (
        "Tensor2Tensor, the authors' code, has halves and slightly longer steps between wavelengths; "
        f"in these rows its numbers differ from the second table's by at most {most:.3g}."
    )
    return finished(drawing, [same, other, f"The model's positions: {model.positions}."])


def draw_table(drawing: Drawing, title: str, kind: PositionKind, d_model: int) -> None:
    """A layout below what is drawn."""
    table: Table = sinusoid_table(POSITIONS, d_model, kind)
    cell, left, top = max(1.0, min(8.0, 640 / d_model)), 52.0, drawing.height + 54
    drawing.text(16, top - 26, title, 13, bold=True)
    drawing.text(left, top - 8, "dimension →", 11, "fill-faint")
    for row in range(0, POSITIONS, 5):
        drawing.text(left - 8, top + row * ROW + 9, str(row), 11, "fill-faint", "end")
    with drawing.group("cells", f"{kind}: rows are positions, columns are dimensions"):
        drawing.rectangle(left, top, cell * d_model, ROW * POSITIONS, "fill-zero stroke-line")
        draw_levels(drawing, table, diverging, left, top, cell, ROW)
    for place in sorted({0, d_model // 2, d_model - 1}):
        x = left + (place + 0.5) * cell
        drawing.text(x, top + POSITIONS * ROW + 16, str(place), 11, "fill-faint", "middle")
