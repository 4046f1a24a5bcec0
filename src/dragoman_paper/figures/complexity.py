"""The paper's Table 1 with the sizes of a model. This module imports no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.inspection.views.drawing import Axes, Drawing
from dragoman.inspection.views.layout import finished

COLUMNS = (16.0, 236.0, 400.0, 560.0, 700.0)


@dataclass(frozen=True)
class Row:
    """A type of layer: Table 1's terms without their O(·)."""

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


def self_attention(n: float, d: int) -> float:
    """Table 1's operations of a self-attention layer."""
    return n * n * d


def recurrent(n: float, d: int) -> float:
    """Table 1's operations of a recurrent layer."""
    return n * d * d


def complexity(d_model: int, tokens: int | None) -> str:
    """Table 1, and its first two rows as curves of n; numbers for a sentence of `tokens` tokens."""
    drawing = Drawing(
        "complexity",
        f"Table 1 for d = {d_model}",
        "Operations per layer, operations that have to follow each other, and the longest path between two "
        "positions, for n tokens of width d.",
    )
    draw_rows(drawing)
    if tokens is not None:
        draw_numbers(drawing, d_model, tokens)
    draw_curves(drawing, d_model, tokens)
    notes = [
        "n: tokens. d: d_model. k: width of a convolution's kernel. r: positions that a query attends to.",
        f"Self-attention has fewer operations than a recurrent layer if n < d, here fewer than {d_model} "
        "tokens. Terms are those of Table 1: constant factors are left out, and so are the projections.",
        "A convolution needs k times the operations of a recurrent layer, restricted self-attention r / n "
        "times those of self-attention.",
    ]
    return finished(drawing, notes)


def draw_line(drawing: Drawing, y: float, cells: Sequence[str], bold: bool = False) -> None:
    """A line of the table."""
    for x, cell in zip(COLUMNS, cells, strict=False):
        drawing.text(x, y, cell, css="fill-faint" if bold else "fill-ink", bold=bold)


def draw_rows(drawing: Drawing) -> None:
    """The table as the paper has it."""
    heads = ("layer", "operations", "sequential operations", "longest path")
    draw_line(drawing, 62, heads, bold=True)
    drawing.polyline([(16, 70), (690, 70)], "stroke-line")
    for number, row in enumerate(ROWS):
        terms = [f"O({term})" for term in (row.operations, row.sequential, row.path)]
        draw_line(drawing, 92 + 24 * number, [row.layer, *terms])


def draw_numbers(drawing: Drawing, d: int, n: int) -> None:
    """The terms of the first two rows for this sentence."""
    y = drawing.height + 34
    drawing.text(16, y, f"For this sentence, n = {n} tokens", 13, bold=True)
    numbers = [
        ("Self-attention", f"{self_attention(n, d):,.0f}", "1", "1"),
        ("Recurrent", f"{recurrent(n, d):,.0f}", f"{n}", f"{n}"),
    ]
    for row, cells in enumerate(numbers):
        draw_line(drawing, y + 26 + 24 * row, cells)


def draw_curves(drawing: Drawing, d: int, tokens: int | None) -> None:
    """Operations against n, up to twice the n at which they are equal."""
    most = 2 * max(d, tokens or 0)
    top = drawing.height + 60
    highest = self_attention(most, d) / 1e6  # most ≥ 2 d: the higher curve
    axes = Axes(drawing, 76, top, 520, 220, (0, most), (0, highest))
    axes.draw("n (tokens)", "operations per layer, millions")
    points = [most * step / 60 for step in range(61)]
    for name, colour, count in (("Self-attention", "best", self_attention), ("Recurrent", "self", recurrent)):
        drawing.polyline(
            [axes.place(n, count(n, d) / 1e6) for n in points], f"stroke-{colour}", name, stroke=2.5
        )
        x, y = axes.place(most, count(most, d) / 1e6)
        drawing.text(x + 8, y + 4, name, css=f"fill-{colour}")
    for n, words in ((d, "n = d"), *([(tokens, "this sentence")] if tokens is not None else [])):
        x, y = axes.place(n, recurrent(n, d) / 1e6)
        drawing.polyline([(x, top), (x, top + 220)], "stroke-line", words)
        drawing.text(x + 5, top + 12 + 16 * (n != d), words, 11, "fill-faint")
