"""Learning curves as a picture: BLEU against the number of pairs, a line for each row. Imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

from dragoman.inspection.views.drawing import Axes, Drawing
from dragoman.inspection.views.layout import finished

COLOURS = ("self", "best", "feed", "ink")
LEFT, TOP, WIDTH, HEIGHT, RADIUS = 64.0, 78.0, 480.0, 260.0, 4.0


@dataclass(frozen=True)
class Point:
    """A row's BLEU with a size of corpus."""

    row: str
    pairs: int
    mean: float
    spread: float
    """The standard deviation over seeds; 0 with one seed."""


def learning_curves(points: Sequence[Point], about: str) -> str:
    """The picture; `about` names the text. The numbers are those of the page's table."""
    drawing = Drawing(
        "learning-curves",
        "BLEU against the size of the corpus",
        f"A line for each type of model: BLEU of the validation data by pairs of training text. {about}.",
    )
    sizes = sorted({point.pairs for point in points})
    highest = max(point.mean + point.spread for point in points) or 1.0
    axes = Axes(drawing, LEFT, TOP, WIDTH, HEIGHT, (log2(sizes[0]), log2(sizes[-1])), (0.0, highest))
    labels = [(log2(size), f"{size:,}") for size in sizes]
    axes.draw("pairs of training text, logarithmic", "BLEU of the validation data", labels)
    rows = dict.fromkeys(point.row for point in points)
    for row, colour in zip(rows, COLOURS, strict=False):
        draw_row(axes, [point for point in points if point.row == row], colour)
    draw_names(drawing, list(rows))
    return finished(drawing, [f"{about}.", "Points are means over seeds, bars their standard deviations."])


def draw_row(axes: Axes, points: Sequence[Point], colour: str) -> None:
    """A row's line, its points and their bars."""
    drawing, css = axes.drawing, f"stroke-{colour}"
    points = sorted(points, key=lambda point: point.pairs)
    places = [axes.place(log2(point.pairs), point.mean) for point in points]
    drawing.polyline(places, css, points[0].row, stroke=2.0)
    for point, (x, y) in zip(points, places, strict=True):
        ends = point.mean - point.spread, point.mean + point.spread
        drawing.polyline([(x, axes.place(0, max(0.0, end))[1]) for end in ends], css, stroke=1.5)
        words = f"{point.row}, {point.pairs:,} pairs: {point.mean:.2f} BLEU"
        side = 2 * RADIUS
        drawing.rectangle(x - RADIUS, y - RADIUS, side, side, f"fill-{colour}", words, radius=RADIUS)


def draw_names(drawing: Drawing, rows: Sequence[str]) -> None:
    """The rows' names beside their colours, below the chart."""
    y = drawing.height + 24
    for place, (row, colour) in enumerate(zip(rows, COLOURS, strict=False)):
        x = 16 + 150 * place
        drawing.polyline([(x, y), (x + 28, y)], f"stroke-{colour}", stroke=3)
        drawing.text(x + 34, y + 4, row, css="fill-faint")
