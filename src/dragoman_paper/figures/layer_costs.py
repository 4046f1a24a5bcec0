"""Pictures of a measured Table 1 (section 4), one a column, from its table.json.

This module imports no torch.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.inspection.views.drawing import Axes, Drawing
from dragoman.inspection.views.layout import finished

WIDTH, HEIGHT, ACROSS, DOWN = 300.0, 210.0, 410.0, 326.0
PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
RADIUS = 4.5

Point = tuple[float, float]


@dataclass(frozen=True)
class CostColumn:
    """A column of the table as a picture."""

    name: str
    """Of the file, without its suffix."""
    title: str
    key: str
    """Of the number in each entry of `costs` or `distances`."""
    axis: str
    unit: str = ""


COSTS = (
    CostColumn("time", "Time of a forward pass", "seconds", "time", "s"),
    CostColumn(
        "operations", "Floating-point operations of the matrix products", "flops", "operations", "FLOP"
    ),
    CostColumn("memory", "Memory kept for the backward pass", "saved_bytes", "memory", "B"),
)
DISTANCES = (
    CostColumn("sequential", "Sequential operations", "sequential", "operations that wait for each other"),
    CostColumn("path", "Maximum path length", "path", "operations between two positions"),
)


@dataclass(frozen=True)
class Look:
    """How the curve of a layer type is drawn: no two have the same marker."""

    colour: str
    marker: Callable[[float, float, float], str]
    """The path of a marker with this centre and radius."""
    dashed: bool = False
    filled: bool = True
    radius: float = RADIUS


def polygon(*corners: Point) -> Callable[[float, float, float], str]:
    """A marker with these corners, for the centre (0, 0) and the radius 1."""

    def marker(x: float, y: float, radius: float) -> str:
        placed = (f"{x + radius * right:.2f} {y + radius * down:.2f}" for right, down in corners)
        return f"M{'L'.join(placed)}Z"

    return marker


SQUARE = polygon((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9))
DIAMOND = polygon((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0))
TRIANGLE = polygon((0, -1.2), (1.1, 0.8), (-1.1, 0.8))
POINT_DOWN = polygon((0, 1.2), (1.1, -0.8), (-1.1, -0.8))
OCTAGON = polygon(*((math.cos(k * math.pi / 4), math.sin(k * math.pi / 4)) for k in range(8)))
LOOKS = (
    Look("self", OCTAGON, radius=6),
    Look("best", TRIANGLE),
    Look("feed", SQUARE, filled=False, radius=6.5),
    Look("ink", DIAMOND, dashed=True, radius=3),
    Look("line", POINT_DOWN, radius=3.2),
    Look("self", OCTAGON, dashed=True, filled=False),
)
"""Of the table's layer types, in their order. Large markers come first, since some curves coincide."""


@dataclass(frozen=True)
class Panel:
    """A chart of a picture: a curve for each layer type."""

    title: str
    x_title: str
    curves: Mapping[str, Sequence[Point]]


def layer_pictures(table: Mapping[str, Any]) -> dict[str, str]:
    """An SVG for each column, by the column's name. `table` is what table.json holds."""
    pictures = {column.name: cost_picture(column, table) for column in COSTS}
    return pictures | {column.name: distance_picture(column, table) for column in DISTANCES}


def cost_picture(column: CostColumn, table: Mapping[str, Any]) -> str:
    """A chart against n for each d, and one against d."""
    widths = sorted({cost["width"] for cost in table["costs"]})
    most = max(cost["positions"] for cost in table["costs"])
    by_width = [
        Panel(
            f"against n, d = {width:,}",
            "n, positions",
            curves(table, "costs", "positions", column.key, width=width),
        )
        for width in widths
    ]
    at_most = curves(table, "costs", "width", column.key, positions=most)
    panels = [*by_width, Panel(f"against d, n = {most:,}", "d, features", at_most)]
    note = "n: positions. d: features. Exponents: least squares over all n and d, 95 % confidence intervals."
    if column.key == "seconds":
        note += " Small layers, whose time is that of calling PyTorch, are left out of these."
    return picture(column, table, panels, note)


def distance_picture(column: CostColumn, table: Mapping[str, Any]) -> str:
    """A chart against n: these numbers do not depend on d."""
    panel = Panel("against n", "n, positions", curves(table, "distances", "positions", column.key))
    return picture(
        column, table, [panel], "n: positions. The exponent is the slope of a line through the points."
    )


def curves(
    table: Mapping[str, Any], kind: str, x: str, y: str, **chosen: int
) -> dict[str, list[tuple[float, float]]]:
    """Points for each layer type, from the entries whose sizes are the chosen ones."""
    points_by_layer: dict[str, list[tuple[float, float]]] = {name: [] for name in table["exponents"]}
    for entry in table[kind]:
        if all(entry[name] == size for name, size in chosen.items()):
            points_by_layer[entry["layer"]].append((entry[x], entry[y]))
    return {name: sorted(points) for name, points in points_by_layer.items()}


def picture(column: CostColumn, table: Mapping[str, Any], panels: Sequence[Panel], note: str) -> str:
    """Charts with the same vertical axis, and a legend with the fitted exponents."""
    drawing = Drawing(
        f"table-1-{column.name}",
        f"Table 1: {column.title.lower()}",
        f"{column.title} of layer types, with logarithmic axes. {note}",
    )
    low, high = decades(y for panel in panels for points in panel.curves.values() for _, y in points)
    for place, panel in enumerate(panels):
        left, top = 76 + ACROSS * (place % 2), 92 + DOWN * (place // 2)
        draw_panel(drawing, column, panel, left, top, (low, high))
    draw_legend(drawing, column, table)
    return finished(drawing, [note, "Where curves coincide, their markers are inside each other."])


def draw_panel(
    drawing: Drawing, column: CostColumn, panel: Panel, left: float, top: float, decades: tuple[int, int]
) -> None:
    """A chart with logarithmic axes."""
    sizes = sorted({x for points in panel.curves.values() for x, _ in points})
    margin = 0.04 * (math.log10(sizes[-1] / sizes[0]) or 1.0)
    x_range = math.log10(sizes[0]) - margin, math.log10(sizes[-1]) + margin
    axes = Axes(drawing, left, top, WIDTH, HEIGHT, x_range, decades)
    drawing.text(left - 8, top - 36, panel.title, bold=True)
    axes.draw(
        panel.x_title,
        column.axis,
        [(math.log10(size), f"{size:,}") for size in sizes],
        [(power, with_prefix(10.0**power, column.unit)) for power in range(decades[0], decades[1] + 1)],
    )
    for look, (name, points) in looks(panel.curves):
        placed = [axes.place(math.log10(x), math.log10(y)) for x, y in points]
        drawing.polyline(placed, f"stroke-{look.colour}", name, stroke=1.8, dashed=look.dashed)
        for (x, y), place in zip(points, placed, strict=True):
            draw_marker(drawing, look, *place, f"{name}\n{x:,}: {with_prefix(y, column.unit)}")


def draw_marker(drawing: Drawing, look: Look, x: float, y: float, title: str = "") -> None:
    """The marker of a layer type."""
    css = f"fill-{look.colour if look.filled else 'paper'} stroke-{look.colour}"
    drawing.path(look.marker(x, y, look.radius), css, title, stroke=1.6)


def draw_legend(drawing: Drawing, column: CostColumn, table: Mapping[str, Any]) -> None:
    """A line for each layer type: its look, the fitted exponents, and the paper's order."""
    top = drawing.height + 30
    columns = 16.0, 66.0, 300.0, 520.0
    orders = [paper_row.get(column.key, "") for paper_row in table["paper"].values()]
    heads = "", "layer type", "fitted", "paper" if any(orders) else ""
    for x, head in zip(columns, heads, strict=True):
        drawing.text(x, top, head, css="fill-faint")
    for row, (look, (name, exponents)) in enumerate(looks(table["exponents"])):
        y = top + 22 * (row + 1)
        drawing.polyline(
            [(columns[0], y - 4), (columns[0] + 38, y - 4)],
            f"stroke-{look.colour}",
            stroke=1.8,
            dashed=look.dashed,
        )
        draw_marker(drawing, look, columns[0] + 19, y - 4)
        words = (name, growth(exponents[column.key]), table["paper"][name].get(column.key, ""))
        for x, word in zip(columns[1:], words, strict=True):
            drawing.text(x, y, word)


def looks(by_layer: Mapping[str, Any]) -> Iterable[tuple[Look, tuple[str, Any]]]:
    """Each layer type's look, name and value."""
    return zip(LOOKS, by_layer.items(), strict=True)


def growth(exponents: Mapping[str, Mapping[str, float]]) -> str:
    """`n^1.98 ± 0.03 · d^1.00`; an interval that rounds to nothing is left out."""
    parts = []
    for name, exponent in exponents.items():
        margin = (exponent["high"] - exponent["low"]) / 2
        interval = f" ± {margin:.2f}" if margin >= 0.005 else ""
        parts.append(f"{name}^{round(exponent['value'], 2) + 0.0:.2f}{interval}")
    return " · ".join(parts)


def decades(values: Iterable[float]) -> tuple[int, int]:
    """The powers of ten around these values, one apart at least."""
    numbers = list(values)
    low = math.floor(math.log10(min(numbers)) + 1e-9)
    return low, max(math.ceil(math.log10(max(numbers)) - 1e-9), low + 1)


def with_prefix(value: float, unit: str) -> str:
    """`1.5 ms`, `100 GFLOP`; without a unit, `1,500`."""
    if not unit:
        return f"{value:,.0f}"
    rounded = float(f"{value:.3g}")  # 999.9 is 1,000, which has the next prefix
    power = min(max(3 * math.floor(math.log10(rounded) / 3 + 1e-9), min(PREFIXES)), max(PREFIXES))
    return f"{rounded / 10.0**power:.3g} {PREFIXES[power]}{unit}"
