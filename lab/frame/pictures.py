"""The three pictures that experiments draw: curves, bars, and matrices as cells."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dragoman.inspection.drawing import Axes, Drawing, diverging, sequential, text_width, ticks, widest
from dragoman.inspection.figures.layer_costs import LOOKS, draw_marker
from dragoman.inspection.layout import draw_levels

Point = tuple[float, float]
Matrix = npt.NDArray[np.floating]

WIDTH, HEIGHT, TOP = 440.0, 260.0, 76.0
MAX_MARKERS = 24


def curves(
    title: str,
    x_title: str,
    y_title: str,
    by_name: Mapping[str, Sequence[Point]],
    note: str = "",
    log_x: bool = False,
    log_y: bool = False,
) -> Drawing:
    """At most six curves in one chart, and their names below it. Points that are not finite are left out.

    On a logarithmic axis, points that are not positive are left out too. Raises `ValueError` for more curves.
    """
    if len(by_name) > len(LOOKS):
        raise ValueError(f"There are {len(by_name)} curves, and looks for {len(LOOKS)}.")
    drawing = Drawing("lab", title, f"Curves of {y_title} against {x_title}: {', '.join(by_name)}. {note}")
    drawn = {
        name: [point for x, y in points if is_shown(point := (scaled(x, log_x), scaled(y, log_y)))]
        for name, points in by_name.items()
    }
    placed = [point for points in drawn.values() for point in points]
    x_range, x_ticks = axis([x for x, _ in placed], log_x, given=True)
    y_range, y_ticks = axis([y for _, y in placed], log_y)
    left = 36 + widest([label for _, label in y_ticks], 11)
    axes = Axes(drawing, left, TOP, WIDTH, HEIGHT, x_range, y_range)
    x_title, y_title = x_title + ", logarithmic axis" * log_x, y_title + ", logarithmic axis" * log_y
    axes.draw(x_title, y_title, x_ticks, y_ticks)
    y = TOP + HEIGHT + 62
    for look, (name, points) in zip(LOOKS, drawn.items(), strict=False):
        pixels = [axes.place(*point) for point in points]
        if pixels:
            drawing.polyline(pixels, f"stroke-{look.colour}", name, stroke=1.8, dashed=look.dashed)
        for place in pixels if len(pixels) <= MAX_MARKERS else ():
            draw_marker(drawing, look, *place)
        drawing.polyline([(16, y - 4), (54, y - 4)], f"stroke-{look.colour}", stroke=1.8, dashed=look.dashed)
        if len(points) <= MAX_MARKERS:
            draw_marker(drawing, look, 35, y - 4)
        drawing.text(64, y, name)
        y += 22
    drawing.paragraph(16, y + 4, note)
    return drawing


def scaled(value: float, log: bool) -> float:
    """A number, or its decimal logarithm; NaN where there is none."""
    return (math.log10(value) if value > 0 else math.nan) if log else value


def is_shown(point: Point) -> bool:
    """Whether a point has a place on the axes."""
    return all(map(math.isfinite, point))


def axis(values: Sequence[float], log: bool, given: bool = False) -> tuple[Point, list[tuple[float, str]]]:
    """The range of an axis, and its ticks with labels. `values` are logarithms on a logarithmic axis.

    The ticks are the values themselves if that is asked for and they are few; else a linear axis begins at 0,
    unless that leaves half of it empty.
    """
    low, high, few = min(values), max(values), sorted(set(values))
    if given and 1 < len(few) <= 8 and (log or max(few) < 10 * len(few)):
        margin = (high - low) * 0.04
        labels = [(value, f"{10**value if log else value:,.6g}") for value in few]
        return (low - margin, high + margin), labels
    if not log:
        low, high = min(low, 0.0) if low < high / 2 else low, max(high, 0.0)
        low, high = (low, high) if low < high else (low - 1, high + 1)
        shown = ticks(low, high)
        step = shown[1] - shown[0] if len(shown) > 1 else 0.0
        high = max(high, shown[-1] + step) if shown[-1] + step - high < step / 3 else high
        return (low, high), [(value, f"{value:,g}") for value in ticks(low, high)]
    low, high = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    high = max(high, low + 1)
    step = math.ceil((high - low) / 6)
    return (low, high), [(power, power_label(power)) for power in range(low, high + 1, step)]


def power_label(power: int) -> str:
    """`0.01`, `1,000`, and beyond these `1e6`."""
    return f"{10.0**power:,g}" if -3 <= power <= 5 else f"1e{power}"


def bars(
    title: str, unit: str, groups: Mapping[str, Mapping[str, float]], note: str = "", log: bool = False
) -> Drawing:
    """Groups of horizontal bars, with their numbers. Numbers are not negative; on a logarithmic scale, a bar
    begins at the power of ten below the least.
    """
    drawing = Drawing("lab", title, f"Bars of {unit}. {note}")
    values = [value for group in groups.values() for value in group.values() if math.isfinite(value)]
    positive = [value for value in values if value > 0] or [1.0]
    floor = math.floor(math.log10(min(positive)) - 1e-9) if log else 0.0
    most = (math.log10(max(positive)) if log else max(positive)) - floor
    left = 24 + widest([name for group in groups.values() for name in group])
    drawing.text(16, 52, unit + ", logarithmic scale" * log, css="fill-faint")
    y = 66.0
    for heading, group in groups.items():
        if heading:
            drawing.text(16, y + 14, heading, 13, bold=True)
            y += 24
        first = y
        for look, (name, value) in zip(LOOKS * 8, group.items(), strict=False):
            drawing.label(left - 8, y + 14, name, anchor="end")
            share = (scaled(value, log) - floor) / most if math.isfinite(value) else 1.0
            width = 360 * max(share, 0.0) if math.isfinite(share) else 0.0
            drawing.rectangle(left, y, max(width, 1.0), 18, f"fill-{look.colour}", f"{name}: {value:.6g}")
            drawing.text(left + width + 8, y + 14, f"{value:,.4g}", 11, "fill-faint")
            y += 24
        drawing.polyline([(left, first - 3), (left, y - 3)], "stroke-line")
        y += 8
    drawing.paragraph(16, y + 12, note)
    return drawing


def matrices(
    title: str,
    by_name: Mapping[str, Matrix],
    note: str = "",
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    across: int = 2,
    numbers: bool = False,
    own_scales: bool = False,
) -> Drawing:
    """Matrices as cells with one scale, up to the largest magnitude, from 0 or from its negative.

    Labels are drawn where they are given. `numbers` writes each number into its cell. With `own_scales` each
    matrix has a scale up to its own largest magnitude.
    """
    drawing = Drawing("lab", title, f"Numbers as shades: {', '.join(by_name)}. {note}")
    peaks = [float(np.nanmax(np.abs(matrix))) or 1.0 for matrix in by_name.values()]
    peaks = peaks if own_scales else [max(peaks)] * len(peaks)
    signed = any(float(np.nanmin(matrix)) < 0 for matrix in by_name.values())
    scale = diverging if signed else sequential
    tall, wide = max(map(len, by_name.values())), max(matrix.shape[1] for matrix in by_name.values())
    cell = 40.0 if numbers else max(2.0, min(26.0, 300 / max(tall, wide)))
    left, head = 24 + widest(rows), 34 + 0.9 * widest(columns)
    x_step = max(left + wide * cell + 12, max(text_width(name, 13) for name in by_name) + 40)
    for place, (name, matrix) in enumerate(by_name.items()):
        x, most = left + x_step * (place % across), peaks[place]
        y = 44 + head + (head + tall * cell + 22) * (place // across)
        drawing.text(x, y - head + 14, name, 13, bold=True)
        height, width = len(matrix) * cell, matrix.shape[1] * cell
        drawing.rectangle(x, y, width, height, "fill-zero stroke-grid")
        draw_levels(drawing, np.asarray(matrix / most, np.float32), scale, x, y, cell, cell)
        for (row, column), value in np.ndenumerate(matrix) if numbers else ():
            place_x, place_y = x + (column + 0.5) * cell, y + (row + 0.5) * cell + 4
            drawing.text(
                place_x, place_y, f"{round(value, 2) + 0.0:.2f}", 12, scale(value / most).label, "middle"
            )
        for row, label in enumerate(rows):
            drawing.label(x - 8, y + (row + 0.5) * cell + 4, label, anchor="end")
        for column, label in enumerate(columns):
            drawing.label(x + (column + 0.5) * cell + 3, y - 8, label, turn=-60)
    shares = (-1.0, 0.0, 1.0) if signed else (0.0, 0.5, 1.0)
    of, most = ("share of the largest of a matrix", 1.0) if own_scales else ("value", peaks[0])
    drawing.legend(16, drawing.height + 20, of, scale, [(share, f"{share * most:.3g}") for share in shares])
    drawing.paragraph(16, drawing.height + 24, note)
    return drawing
