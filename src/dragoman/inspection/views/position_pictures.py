"""The table of positions as pictures (section 3.5). Shapes: P positions."""

import numpy as np

from dragoman.inspection.analyse.summaries import wavelengths
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.drawing import Axes, Drawing, diverging
from dragoman.inspection.views.labels import Window, in_window
from dragoman.inspection.views.layout import draw_levels, finished


def positions(inspection: Record, window: Window | None = None) -> str:
    """The position table as a heat map: rows are positions, columns are dimensions."""
    drawn = in_window(len(inspection.positions), window)
    table = inspection.positions[drawn]
    count, width = table.shape
    most = float(np.abs(table).max(initial=0)) or 1.0
    cell, height, left, top = max(1.0, min(8.0, 640 / width)), 10, 52, 76
    kind = inspection.model.positions
    title = f"{count} rows of the {kind} table" if kind != "none" else "this model adds none"
    drawing = Drawing(
        "positions",
        f"Positions: {title}",
        f"Rows are positions, columns are the {width} dimensions; blue is positive and orange is negative.",
    )
    drawing.text(16, top - 24, "position", css="fill-faint")
    for row in range(0, count, 5):
        drawing.text(left - 8, top + row * height + 9, str(drawn.start + row), 11, "fill-faint", "end")
    with drawing.group("cells"):
        drawing.rectangle(left, top, cell * width, height * count, "fill-zero stroke-line")
        draw_levels(drawing, table / most, diverging, left, top, cell, height)
    bottom = top + height * count
    periods, axis = wavelengths(inspection.model.positions, width), "dimension"
    for place in sorted({0, width // 4, width // 2, 3 * width // 4, width - 1}):
        x = left + (place + 0.5) * cell
        drawing.text(x, bottom + 17, str(place), 11, "fill-faint", "middle")
        if len(periods):
            digits = 2 if periods[place] < 100 else 0
            drawing.text(x, bottom + 32, f"{periods[place]:,.{digits}f}", 11, "fill-faint", "middle")
    if len(periods):
        bottom, axis = bottom + 15, "dimension, and below it its wavelength in positions"
    drawing.text(left + cell * width / 2, bottom + 36, axis, css="fill-faint", anchor="middle")
    labels = [(-1.0, f"−{most:.3g}"), (0.0, "0"), (1.0, f"{most:.3g}")]
    drawing.legend(left, bottom + 52, "number in the table (no unit)", diverging, labels)
    return finished(drawing, positions_note(inspection, drawn))


def positions_note(inspection: Record, drawn: slice) -> list[str]:
    """Sentences if there are other positions than these, or if positions do not count from 0."""
    count, model = len(inspection.positions), inspection.model
    note = f"Only positions {drawn.start} to {drawn.stop - 1} of 0 to {count - 1} are drawn."
    first = model.first_position if model.positions not in {"learned", "none"} else 0
    shift = f"The first token has position {first} of the formula, not 0: add it to the numbers."
    return [note] * (drawn != slice(0, count)) + [shift] * (first > 0)


def position_products(inspection: Record, window: Window | None = None) -> str:
    """Dot products of rows of the position table against their distance, a line for each first row."""
    drawn = in_window(len(inspection.positions), window)
    table = inspection.positions[drawn]
    products = table @ table.T  # [P, P]
    low, high = min(float(products.min()), 0.0), max(float(products.max()), 1e-9)
    drawing = Drawing(
        "position-products",
        "Positions: dot product against distance",
        "A line for each position p: the dot product of PE(p) and PE(p + k) against the distance k. For the "
        "paper's sinusoids the lines are the same, because the product depends on the distance alone.",
    )
    axes = Axes(drawing, 64, 84, 460, 240, (0, max(len(table) - 1, 1)), (low, high))
    axes.draw("distance k (positions)", "PE(p) · PE(p + k), no unit")
    for first in reversed(range(len(table))):
        points = [axes.place(k, float(product)) for k, product in enumerate(products[first, first:])]
        look = {True: ("stroke-best", 1.0, 3.0), False: ("stroke-self", 0.35, 1.0)}[first == 0]
        drawing.polyline(points, look[0], f"p = {drawn.start + first}", look[1], look[2])
    notes = [f"The thick line has p = {drawn.start}, the thin ones later positions."]
    return finished(drawing, notes + positions_note(inspection, drawn))
