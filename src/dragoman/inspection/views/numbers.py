"""The picture of one head in numbers: from a query to its weighted sum of values (section 3.2.1).

Shapes: N keys, K = d_k, Kv = d_v.
"""

import math

from dragoman.inspection.analyse.steps import Steps, steps
from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.projected import Numbers
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.attention_pictures import KIND_NAMES
from dragoman.inspection.views.drawing import (
    Anchor,
    Drawing,
    decimal,
    sequential,
    text_width,
    visible,
    widest,
)
from dragoman.inspection.views.labels import Window, in_window, view
from dragoman.inspection.views.layout import finished, sentences

FIRST = 4  # numbers of a vector that are drawn
ROW = 24


def numbers(
    inspection: Record, kind: Kind, layer: int | None, head: int | None, query: int, window: Window | None
) -> str:
    """A query of a head: a row for each key, a column for each step of equation 1.

    None is the last layer, and head 1. Raises `DragomanError` if there is no such layer, head or query.
    """
    layer = len(inspection.attention.of(kind)) if layer is None else layer
    head = 1 if head is None else head
    query_steps = steps(inspection, kind, layer, head, query)
    attention_view = view(inspection, kind, window=window)
    token = visible((inspection.source if kind == "encoder" else inspection.target)[query - 1])
    drawing = Drawing(
        f"numbers-{kind}-{layer}-{head}-{query}",
        f"{KIND_NAMES[kind]}, layer {layer}, head {head}: one query in numbers",
        f"Attention(q, K, V) = softmax(q Kᵀ / √d_k) V for query {query}. {sentences(inspection)}",
    )
    reads = "the token" if kind == "encoder" else "which predicts"
    d_k, d_v, keys = len(query_steps.query), len(query_steps.output), len(query_steps.keys)
    drawing.text(
        16,
        56,
        f"q of query {query}, {reads} {token}: q = x W^Q{plus_bias(inspection)}, 1 × {d_k}",
        css="fill-faint",
    )
    drawing.text(16, 78, vector(query_steps.query))
    bottom = draw_keys(
        drawing, query_steps, attention_view.keys, in_window(keys, window), 118, plus_bias(inspection)
    )
    drawing.text(16, bottom + 30, f"Σ weight · v, the head's output: 1 × {d_v}", css="fill-faint")
    drawing.text(16, bottom + 52, vector(query_steps.output))
    about = (
        f"q is 1 × {d_k}, K is {keys} × {d_k}, V is {keys} × {d_v}; √d_k = {math.sqrt(d_k):.3f}. Of each "
        f"vector the first {min(FIRST, d_k)} numbers are drawn. A row is a {attention_view.key_axis}."
    )
    later = "Later keys are masked; during a search they do not exist yet."
    return finished(drawing, [about, *[later] * (kind == "decoder"), *attention_view.notes])


def plus_bias(inspection: Record) -> str:
    """What the linear maps of an attention add to x W."""
    return " + b" if inspection.model.attention_bias else ""


def draw_keys(
    drawing: Drawing, query_steps: Steps, labels: list[str], drawn: slice, top: float, bias: str
) -> float:
    """The table of keys. Returns the y below it."""
    vectors = [vector(row) for row in (*query_steps.keys[drawn], *query_steps.values[drawn])]
    wide = 0.85 * max(map(text_width, vectors)) + 16
    titles = ["key", f"k = x W^K{bias}", "q · k", "q · k / √d_k", "mask", "softmax", f"v = x W^V{bias}"]
    widths = [widest(labels) + 24, wide, 96, 72, 84, 84, wide]
    lefts = [16 + sum(widths[:place]) for place in range(len(widths))]
    for column, (x, title) in enumerate(zip(lefts, titles, strict=True)):
        place: tuple[float, Anchor] = (x + 44, "end") if 2 <= column <= 4 else (x, "start")
        drawing.text(place[0], top, title, css="fill-faint", bold=True, anchor=place[1])
    for row, key in enumerate(range(drawn.start, drawn.stop)):
        y = top + ROW * (row + 1)
        allowed, weight = bool(query_steps.allowed[key]), float(query_steps.weights[key])
        drawing.label(lefts[0], y, labels[row])
        drawing.text(lefts[1], y, vector(query_steps.keys[key]))
        score, scaled = decimal(query_steps.scores[key], 3), decimal(query_steps.scaled[key], 3)
        for column, words in enumerate((score, scaled, scaled if allowed else "−∞"), 2):
            drawing.text(lefts[column] + 44, y, words, anchor="end")
        shade = sequential(weight)
        drawing.cell(lefts[5] - 6, y - 16, 66, ROW - 2, shade)
        drawing.text(lefts[5], y, f"{weight:.4f}", css=shade.label)
        drawing.text(lefts[6], y, vector(query_steps.values[key]))
    return top + ROW * (drawn.stop - drawn.start)


def vector(row: Numbers) -> str:
    """The first numbers of a vector."""
    ellipsis = ", …" if len(row) > FIRST else ""
    return f"({', '.join(decimal(value, 3) for value in row[:FIRST])}{ellipsis})"
