"""Boxes and arrows of diagrams. This module imports no torch."""

from collections.abc import Sequence

from dragoman.inspection.views.drawing import Drawing

Point = tuple[float, float]


def box(
    drawing: Drawing, x: float, y: float, width: float, height: float, name: str, detail: str = ""
) -> None:
    """A box about the point (x, y), with a name and a detail below it."""
    left, top = x - width / 2, y - height / 2
    drawing.rectangle(left, top, width, height, "fill-box stroke-line", radius=5)
    drawing.text(x, y + (-3 if detail else 4), name, 12, anchor="middle", bold=True)
    if detail:
        drawing.text(x, y + 13, detail, 11, "fill-faint", "middle")


def arrow(drawing: Drawing, points: Sequence[Point], colour: str = "ink", width: float = 1.0) -> None:
    """A line through points, with a head at the last of them."""
    (x1, y1), (x2, y2) = points[-2:]
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-9)
    across, along = (x2 - x1) / length, (y2 - y1) / length
    size = 5 + width
    base = x2 - size * across, y2 - size * along
    side = 0.45 * size
    drawing.polyline([*points[:-1], base], f"stroke-{colour}", stroke=width)
    corners = [
        (x2, y2),
        (base[0] - side * along, base[1] + side * across),
        (base[0] + side * along, base[1] - side * across),
    ]
    data = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "z"
    drawing.path(data, f"fill-{colour}")
