"""Pictures that experiments draw: matrices as cells."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dragoman.inspection.views.drawing import (
    Drawing,
    Shade,
    decimal,
    diverging,
    sequential,
    text_width,
    widest,
)
from dragoman.inspection.views.layout import draw_levels

Matrix = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Side:
    """What the rows of a matrix are, or its columns, and their labels: numbers from 1 if none are given."""

    title: str
    labels: Sequence[str] | range = ()

    def drawn(self, count: int, cell: float) -> dict[int, str]:
        """The labels that have room, by place: all words; all numbers, or the multiples of 2, 5, …"""
        if self.labels and not isinstance(self.labels, range):
            return dict(enumerate(self.labels))
        numbers = self.labels or range(1, count + 1)
        step = next(step for step in (1, 2, 5, 10, 20, 50, 100) if step * cell >= 16)
        return {place: str(number) for place, number in enumerate(numbers) if number % step == 0}


@dataclass(frozen=True)
class Cells:
    """A matrix with labels, and how it is drawn."""

    name: str
    matrix: Matrix
    rows: Side
    columns: Side
    cell: int
    """Pixels of a side."""
    scale: Callable[[float], Shade]
    most: float
    """The number whose share is 1."""

    def above(self) -> dict[int, str]:
        """The labels of the columns."""
        return self.columns.drawn(self.matrix.shape[1], self.cell)

    def turned(self) -> bool:
        """Whether labels of columns are turned: words that are wider than a column."""
        return any(
            text_width(label, 11) > self.cell for label in self.above().values() if not label.isdigit()
        )

    def left(self) -> int:
        """The room that the labels of rows need."""
        labels = self.rows.drawn(len(self.matrix), self.cell).values()
        return 24 + math.ceil(max(widest([*labels]), text_width(f"{self.rows.title} ↓", 11)))

    def head(self) -> int:
        """The room that the name and the labels of columns need."""
        return 44 + (math.ceil(0.85 * widest([*self.above().values()], 11)) if self.turned() else 14)

    def width(self) -> int:
        """The room to the right of the labels of rows."""
        titles = text_width(self.name, 13), text_width(f"{self.columns.title} →", 11)
        return math.ceil(max(self.matrix.shape[1] * self.cell, *titles))

    def draw(self, drawing: Drawing, x: float, y: float, numbers: bool) -> None:
        """Draw the matrix with this corner, and names and labels beside it."""
        cell, (tall, wide) = self.cell, self.matrix.shape
        drawing.text(x, y - self.head() + 14, self.name, 13, bold=True)
        drawing.text(x, y - self.head() + 32, f"{self.columns.title} →", 11, "fill-faint")
        drawing.text(x - 8, y - 8, f"{self.rows.title} ↓", 11, "fill-faint", "end")
        drawing.rectangle(x, y, wide * cell, tall * cell, "fill-zero stroke-grid")
        with drawing.group("cells"):
            draw_levels(
                drawing, np.asarray(self.matrix / self.most, np.float32), self.scale, x, y, cell, cell
            )
        for (row, column), value in np.ndenumerate(self.matrix):
            if math.isnan(value):
                draw_nan(drawing, x + column * cell, y + row * cell, cell)
            elif numbers:
                place = x + (column + 0.5) * cell, y + (row + 0.5) * cell + 4
                shade = self.scale(float(value) / self.most)
                drawing.text(*place, decimal(float(value)), 12, shade.label, "middle")
        for row, label in self.rows.drawn(tall, cell).items():
            drawing.label(x - 8, y + (row + 0.5) * cell + 4, label, anchor="end")
        for column, label in self.above().items():
            middle = x + (column + 0.5) * cell
            if self.turned():
                drawing.label(middle + 3, y - 8, label, 11, turn=-60)
            else:
                drawing.label(middle, y - 8, label, 11, anchor="middle")


def matrices(
    title: str,
    unit: str,
    by_name: Mapping[str, Matrix],
    rows: Side | Mapping[str, Side],
    columns: Side | Mapping[str, Side],
    note: str = "",
    across: int = 2,
    numbers: bool = False,
    own_scales: bool = False,
) -> Drawing:
    """Matrices as cells with one scale, up to the largest magnitude, from 0 or from its negative.

    `rows` and `columns` are the same for all matrices, or given by their names. NaN is grey, with a line
    through it. `numbers` writes each number into its cell. With `own_scales` the shades of each matrix are
    its numbers divided by its largest magnitude.
    """
    drawing = Drawing("lab", title, f"{unit[:1].upper()}{unit[1:]} as shades: {', '.join(by_name)}. {note}")
    peaks = {name: float(np.nanmax(np.abs(matrix))) or 1.0 for name, matrix in by_name.items()}
    peak = max(peaks.values())
    signed = any(float(np.nanmin(matrix)) < 0 for matrix in by_name.values())
    scale = diverging if signed else sequential
    tall, wide = max(map(len, by_name.values())), max(matrix.shape[1] for matrix in by_name.values())
    cell = 44 if numbers else max(2, min(26, 300 // tall, 360 // wide))
    drawn = []
    for name, matrix in by_name.items():
        row, column = (side if isinstance(side, Side) else side[name] for side in (rows, columns))
        drawn.append(Cells(name, matrix, row, column, cell, scale, peaks[name] if own_scales else peak))
    y = 44
    for start in range(0, len(drawn), across):
        line = drawn[start : start + across]
        x, y = 0, y + max(panel.head() for panel in line)
        for place, panel in enumerate(line):
            x += max(other.left() for other in drawn[place::across])
            panel.draw(drawing, x, y, numbers)
            x += max(other.width() for other in drawn[place::across])
        y += max(len(panel.matrix) for panel in line) * cell + 22
    shares, most = (-1.0, 0.0, 1.0) if signed else (0.0, 0.5, 1.0), 1.0 if own_scales else peak
    labels = [(share, f"{share * most:.3g}".replace("-", "−")) for share in shares]
    drawing.legend(16, y := drawing.height + 20, unit, scale, labels)
    if any(np.isnan(matrix).any() for matrix in by_name.values()):
        draw_nan(drawing, 240, y + 18, 12)
        drawing.text(258, y + 28, "NaN", 11, "fill-faint")
    drawing.paragraph(16, drawing.height + 24, note)
    return drawing


def draw_nan(drawing: Drawing, x: float, y: float, size: float) -> None:
    """A cell without a number: grey, with a line from corner to corner."""
    drawing.rectangle(x, y, size, size, "fill-stream")
    drawing.polyline([(x, y + size), (x + size, y)], "stroke-line")
