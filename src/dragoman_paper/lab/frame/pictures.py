"""Pictures that experiments draw: curves and bars."""

import math
from collections.abc import Mapping, Sequence

from dragoman.inspection.views.drawing import Axes, Drawing, widest
from dragoman_paper.figures.layer_costs import LOOKS, draw_marker

Point = tuple[float, float]

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
    x_range, x_ticks = axis([x for x, _ in placed], log_x, at_values=True)
    y_range, y_ticks = axis([y for _, y in placed], log_y)
    left = 36 + widest([label for _, label in y_ticks], 11)
    axes = Axes(drawing, left, TOP, WIDTH, HEIGHT, x_range, y_range)
    x_title += ", logarithmic axis" if log_x else ""
    y_title += ", logarithmic axis" if log_y else ""
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


def axis(
    values: Sequence[float], log: bool, at_values: bool = False
) -> tuple[Point, list[tuple[float, str]]]:
    """The range of an axis, and its ticks with labels. `values` are logarithms on a logarithmic axis.

    The ticks are the values themselves if that is asked for and they are few; else a linear axis begins at 0,
    unless that leaves half of it empty, and both axes begin and end on a tick.
    """
    low, high, few = min(values), max(values), sorted(set(values))
    if at_values and 1 < len(few) <= 8 and (log or max(few) < 10 * len(few)):
        margin = (high - low) * 0.04
        labels = [(value, f"{10**value if log else value:,.6g}") for value in few]
        return (low - margin, high + margin), labels
    if not log:
        low, high = min(low, 0.0) if low < high / 2 else low, max(high, 0.0)
        low, high = (low, high) if low < high else (low - 1, high + 1)
        ticks = round_numbers(low, high)
        return (ticks[0], ticks[-1]), list(zip(ticks, same_decimals(ticks, digits=6), strict=True))
    low, high = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    high = max(high, low + 1)
    step = math.ceil((high - low) / 6)
    high += (low - high) % step
    return (low, high), [(power, power_label(power)) for power in range(low, high + 1, step)]


def round_numbers(low: float, high: float) -> list[float]:
    """At most nine round numbers, the first not above `low` and the last not below `high`."""
    power = 10 ** math.floor(math.log10((high - low) / 5))
    for step in (power, 2 * power, 5 * power, 10 * power):
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first <= 8:
            break
    return [round(place * step, 10) for place in range(first, last + 1)]


def same_decimals(values: Sequence[float], digits: int = 4) -> list[str]:
    """Numbers with the same number of decimals: what the largest needs for so many digits, without zeros that
    all of them end with. Very large and very small numbers have a power of ten.
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    if not 1e-3 <= largest < 1e7:
        return [f"{value:.{digits - 1}e}" if value else "0" for value in values]
    decimals = max(digits - 1 - math.floor(math.log10(largest)), 0)
    needed = max(len(f"{value:.{decimals}f}".partition(".")[2].rstrip("0")) for value in values)
    return [f"{value:,.{needed}f}" for value in values]


def power_label(power: int) -> str:
    """`0.01`, `1,000`, and beyond these `1e6`."""
    return f"{10.0**power:,g}" if -3 <= power <= 5 else f"1e{power}"


def bars(
    title: str,
    unit: str,
    groups: Mapping[str, Mapping[str, float]],
    note: str = "",
    log: bool = False,
    own_scales: bool = False,
) -> Drawing:
    """Groups of horizontal bars, with their numbers. Numbers are not negative. On a logarithmic scale, a bar
    begins at the power of ten below the least. With `own_scales` each group has a scale up to its largest.
    """
    drawing = Drawing("lab", title, f"Bars of {unit}. {note}")
    values = [value for group in groups.values() for value in group.values() if math.isfinite(value)]
    logs = [math.log10(value) for value in values if value > 0] or [0.0]
    (low, high), ticks = axis([min(logs) - 1e-6, *logs], log) if log else ((0.0, max(values) or 1.0), [])
    left = 24 + widest([name for group in groups.values() for name in group])
    ticks = [(left + 360 * (power - low) / (high - low), label) for power, label in ticks]
    drawing.text(16, 52, unit + (", logarithmic axis" if log else ""), css="fill-faint")
    y = 66.0
    for heading, group in groups.items():
        if heading:
            drawing.text(16, y + 14, heading, 13, bold=True)
            y += 24
        first, most = y, (max(group.values()) or 1.0) if own_scales else high
        numbers = same_decimals(list(group.values()))
        if log and min(group.values()) < 1e-3:
            numbers = [f"{value:.2e}" if value else "0" for value in group.values()]
        for look, (name, value), words in zip(LOOKS * 8, group.items(), numbers, strict=False):
            drawing.label(left - 8, y + 14, name, anchor="end")
            share = (scaled(value, log) - low) / (most - low) if math.isfinite(value) else 1.0
            width = 360 * max(share, 0.0) if math.isfinite(share) else 0.0
            drawing.rectangle(left, y, max(width, 1.0), 18, f"fill-{look.colour}", f"{name}: {value:.6g}")
            drawing.text(left + width + 8, y + 14, words, 11, "fill-faint")
            y += 24
        drawing.polyline([(left, first - 3), (left, y - 3)], "stroke-line")
        y += 8
    if log:
        drawing.polyline([(left, y - 8), (left + 360, y - 8)], "stroke-line")
        for x, label in ticks:
            drawing.polyline([(x, y - 8), (x, y - 4)], "stroke-line")
            drawing.text(x, y + 9, label, 11, "fill-faint", "middle")
        y += 18
    drawing.paragraph(16, y + 12, note)
    return drawing
