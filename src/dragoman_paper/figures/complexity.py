"""The paper's Table 1 with the sizes of a model. This module imports no torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.inspection.views.drawing import Axes, Drawing
from dragoman.inspection.views.layout import finished

COLUMNS = (16.0, 236.0, 400.0, 560.0)  # x of the table's columns, in pixels
KERNEL, NEIGHBOURHOOD = 3, 16  # of the curves


@dataclass(frozen=True)
class Row:
    """A type of layer, with Table 1's terms for it without their O(·)."""

    layer: str
    operations: str
    sequential: str
    path: str


ROWS = (
    Row("Self-attention", "n² · d", "1", "1"),
    Row("Recurrent", "n · d²", "n", "n"),
    Row("Convolutional", "k · n · d²", "1", "log_k(n)"),
    Row("Self-attention (restricted)", "r · n · d", "1", "n / r"),
)


def self_attention_operations(n: float, d: int) -> float:
    """Table 1's operations of a self-attention layer."""
    return n * n * d


def recurrent_operations(n: float, d: int) -> float:
    """Table 1's operations of a recurrent layer."""
    return n * d * d


def convolutional_operations(n: float, d: int) -> float:
    """Table 1's operations of a convolutional layer with k = `KERNEL`."""
    return KERNEL * n * d * d


def restricted_operations(n: float, d: int) -> float:
    """Table 1's operations of self-attention that is restricted to r = `NEIGHBOURHOOD` positions, or to n."""
    return min(NEIGHBOURHOOD, n) * n * d


CURVES = (
    ("Self-attention", "best", self_attention_operations),
    ("Recurrent", "self", recurrent_operations),
    ("Convolutional", "feed", convolutional_operations),
    ("Restricted", "ink", restricted_operations),
)
"""Of each row of the table its short name, its colour and its operations."""


def complexity(d_model: int, tokens: int | None) -> str:
    """SVG of Table 1, and of its operations as curves of n.

    Unless `tokens` is None, the picture also has their numbers for a sentence of so many tokens.
    """
    drawing = Drawing(
        "complexity",
        f"Table 1 for d = {d_model}",
        "Operations per layer, operations that have to follow each other, and the longest path between two "
        "positions, for n tokens of width d.",
    )
    draw_table(drawing)
    if tokens is not None:
        draw_numbers(drawing, d_model, tokens)
    draw_curves(drawing, d_model, tokens)
    notes = [
        "n: tokens. d: d_model. k: width of a convolution's kernel. r: positions that a query attends to. "
        f"Curves and numbers have k = {KERNEL} and r = {NEIGHBOURHOOD}.",
        f"Self-attention has fewer operations than a recurrent layer if n < d, here fewer than {d_model} "
        "tokens. Terms are those of Table 1: constant factors are left out, and so are the projections.",
        "A convolution needs k times the operations of a recurrent layer, restricted self-attention r / n "
        "times those of self-attention.",
    ]
    return finished(drawing, notes)


def draw_row(drawing: Drawing, y: float, cells: Sequence[str], is_heading: bool = False) -> None:
    """Draw a row of the table, with a cell for each column."""
    for x, cell in zip(COLUMNS, cells, strict=True):
        drawing.text(x, y, cell, css="fill-faint" if is_heading else "fill-ink", bold=is_heading)


def draw_table(drawing: Drawing) -> None:
    """Draw the table as the paper has it."""
    headings = ("layer", "operations", "sequential operations", "longest path")
    draw_row(drawing, 62, headings, is_heading=True)
    drawing.polyline([(16, 70), (690, 70)], "stroke-line")
    for number, row in enumerate(ROWS):
        terms = [f"O({term})" for term in (row.operations, row.sequential, row.path)]
        draw_row(drawing, 92 + 24 * number, [row.layer, *terms])


def draw_numbers(drawing: Drawing, d: int, n: int) -> None:
    """Draw the table with the numbers of a sentence of n tokens, rounded up."""
    y = drawing.height + 34
    drawing.text(16, y, f"For this sentence, n = {n} tokens", 13, bold=True)
    lengths = (1, n, math.ceil(round(math.log(n, KERNEL), 9)), math.ceil(n / NEIGHBOURHOOD))
    for number, (row, (_, _, operations), length) in enumerate(zip(ROWS, CURVES, lengths, strict=True)):
        sequential = n if row.sequential == "n" else 1
        cells = (row.layer, f"{operations(n, d):,.0f}", f"{sequential:,}", f"{length:,}")
        draw_row(drawing, y + 26 + 24 * number, cells)


def draw_curves(drawing: Drawing, d: int, tokens: int | None) -> None:
    """Draw the layers' operations against n, at least up to twice d.

    At n = d self-attention and recurrence have equally many.
    """
    largest_n = 2 * max(d, tokens or 0)
    top = drawing.height + 60
    highest = max(operations(largest_n, d) for _, _, operations in CURVES) / 1e6
    axes = Axes(drawing, 76, top, 520, 220, (0, largest_n), (0, highest))
    axes.draw("n (tokens)", "operations per layer, millions")
    points = [largest_n * step / 60 for step in range(61)]
    by_height = sorted(CURVES, key=lambda curve: curve[2](largest_n, d))
    ends = [axes.place(largest_n, operations(largest_n, d) / 1e6) for _, _, operations in by_height]
    heights = apart([y for _, y in ends], 16)
    for (name, colour, operations), (x, _), height in zip(by_height, ends, heights, strict=True):
        drawing.polyline(
            [axes.place(n, operations(n, d) / 1e6) for n in points], f"stroke-{colour}", name, stroke=2.5
        )
        drawing.text(x + 8, height + 4, name, css=f"fill-{colour}")
    marks = [(d, "n = d")] if tokens is None else [(d, "n = d"), (tokens, "this sentence")]
    for n, label in marks:
        x, _ = axes.place(n, 0)
        drawing.polyline([(x, top), (x, top + 220)], "stroke-line", label)
        drawing.text(x + 5, top + 12 + (0 if n == d else 16), label, 11, "fill-faint")


def apart(heights: Sequence[float], distance: float) -> list[float]:
    """Heights from the lowest on the page to the highest, moved up to be a distance apart at least."""
    placed = list(heights[:1])
    for height in heights[1:]:
        placed.append(min(height, placed[-1] - distance))
    return placed
