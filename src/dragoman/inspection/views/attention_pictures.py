"""Attention as pictures (section 3.2): all heads, one head as a heat map, one head as lines.

Shapes: N layers, H heads, Q queries, K keys.
"""

import torch

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.views.alignment_marks import mark_differences
from dragoman.inspection.views.drawing import Drawing, sequential, widest
from dragoman.inspection.views.labels import View, Window, view
from dragoman.inspection.views.layout import SHARE_TICKS, draw_cells, draw_levels, finished, sentences
from dragoman.translation.alignment import select_head

WEIGHT_TITLE = "attention weight (the weights of a query sum to 1)"
KIND_NAMES: dict[Kind, str] = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
MIN_DRAWN_WEIGHT = 0.005  # smaller ones have no line


def attention_grid(inspection: Record, kind: Kind, words: bool = False, window: Window | None = None) -> str:
    """SVG of all heads as small heat maps: a row of maps for each layer, a column for each head."""
    attention_view = view(inspection, kind, words, window)
    layers, heads, queries, keys = attention_view.weights.shape
    cell = max(2, min(8, 104 // max(queries, keys)))  # pixels
    map_width, map_height, gap, left, top = cell * keys, cell * queries, 14, 76, 72
    drawing = Drawing(
        f"attention-grid-{kind}",
        f"{KIND_NAMES[kind]}: {layers} layers × {heads} heads",
        "In each map a row is a query and a column is a key; darker (lighter on dark) is more weight. "
        f"{sentences(inspection)}",
    )
    for head in range(heads):
        x = left + head * (map_width + gap) + map_width / 2
        drawing.text(x, top - 10, f"head {head + 1}", 11, "fill-faint", "middle")
    for layer in range(layers):
        y = top + layer * (map_height + gap)
        drawing.text(left - 10, y + map_height / 2 + 4, f"layer {layer + 1}", 11, "fill-faint", "end")
        for head in range(heads):
            x = left + head * (map_width + gap)
            draw_small_heat_map(drawing, attention_view, layer, head, x, y, cell)
    drawing.legend(left, drawing.height + 20, WEIGHT_TITLE, sequential, SHARE_TICKS)
    rows = "Rows are queries from top to bottom, columns are keys from left to right."
    return finished(drawing, [rows, *attention_view.notes])


def draw_small_heat_map(
    drawing: Drawing, attention_view: View, layer: int, head: int, x: float, y: float, cell: float
) -> None:
    """Draw a head, counted from 0, as a heat map without labels. Weights are rounded to two decimals."""
    weights = attention_view.weights[layer, head]
    queries, keys = weights.shape
    with drawing.group("cells", f"layer {layer + 1}, head {head + 1}"):
        drawing.rectangle(x, y, cell * keys, cell * queries, "fill-zero stroke-line")
        draw_levels(drawing, weights, sequential, x, y, cell, cell)


def select_weights(attention_view: View, layer: int | None, head: int | None) -> tuple[Array, str]:
    """The weights [Q K] of a layer and head, counted from 1, and a heading that names both.

    None is the last layer and the mean of all heads. Raises as `select_head`.
    """
    weights = select_head(torch.tensor(attention_view.weights)[:, None], layer, head)[0].numpy()
    layers, heads = attention_view.weights.shape[:2]
    head_name = f"mean of {heads} heads" if head is None else f"head {head}"
    layer_name = f"layer {layers if layer is None else layer}"
    return weights, f"{KIND_NAMES[attention_view.kind]}, {layer_name}, {head_name}"


def attention_head(
    inspection: Record,
    kind: Kind,
    layer: int | None,
    head: int | None,
    words: bool = False,
    window: Window | None = None,
) -> str:
    """SVG of one head as a heat map with its tokens. `layer` and `head` are counted from 1.

    None is the last layer and the mean of all heads. Raises `DragomanError` if the model has no such layer or
    head.
    """
    attention_view = view(inspection, kind, words, window)
    weights, name = select_weights(attention_view, layer, head)
    drawing = Drawing(
        f"attention-{kind}-{layer or 'last'}-{head or 'mean'}",
        name,
        f"Rows: {attention_view.query_axis}. Columns: {attention_view.key_axis}. {sentences(inspection)}",
    )
    left, top, cell = draw_heat_map(drawing, attention_view, weights)
    if kind == "cross":
        mark_differences(drawing, inspection, layer, head, words, window, left, top, cell)
    return finished(drawing, attention_view.notes)


def draw_heat_map(drawing: Drawing, attention_view: View, weights: Array) -> tuple[float, float, float]:
    """Draw the weights [Q K] as a heat map with its labels and its legend.

    Returns x and y of the first cell, and the size of a cell.
    """
    queries, keys = attention_view.queries, attention_view.keys
    left, top = 44 + widest(queries), 78 + 0.87 * widest(keys)  # turned by 60°, whose sine is 0.87

    def title(query: int, key: int) -> str:
        return f"query: {queries[query]}\nkey: {keys[key]}\nweight: {weights[query, key]:.3f}"

    drawing.text(16, 50, f"columns — {attention_view.key_axis}", css="fill-faint")
    cell = draw_cells(drawing, weights, queries, keys, sequential, title, left, top, "weights")
    y = drawing.height + 24
    drawing.text(16, y, f"rows — {attention_view.query_axis}", css="fill-faint")
    drawing.legend(16, y + 14, WEIGHT_TITLE, sequential, SHARE_TICKS)
    return left, top, cell


def attention_lines(
    inspection: Record,
    kind: Kind,
    layer: int | None,
    head: int | None,
    words: bool = False,
    window: Window | None = None,
) -> str:
    """SVG of one head as lines from queries to keys, as in the paper's Figures 3 to 5. Opacity is the weight.

    `layer` and `head` are counted from 1; None is the last layer and the mean of all heads. Raises
    `DragomanError` if the model has no such layer or head.
    """
    attention_view = view(inspection, kind, words, window)
    weights, name = select_weights(attention_view, layer, head)
    left, top, row_height, gap = 24 + widest(attention_view.queries), 84, 24, 170
    drawing = Drawing(
        f"lines-{kind}-{layer or 'last'}-{head or 'mean'}",
        name,
        "A line joins a query on the left and a key on the right; its opacity is the weight. "
        f"{sentences(inspection)}",
    )
    drawing.text(left, top - 22, "query", css="fill-faint", anchor="end")
    drawing.text(left + gap + 16, top - 22, "key", css="fill-faint")
    with drawing.group("weights"):
        for row, query in enumerate(attention_view.queries):
            for column, key in enumerate(attention_view.keys):
                if (weight := float(weights[row, column])) >= MIN_DRAWN_WEIGHT:
                    ends = [(left + 8, top + row * row_height), (left + gap + 8, top + column * row_height)]
                    title = f"query: {query}\nkey: {key}\nweight: {weight:.3f}"
                    drawing.polyline(ends, "stroke-positive", title, opacity=min(weight, 1.0), stroke=3)
    for row, label in enumerate(attention_view.queries):
        drawing.label(left, top + row * row_height + 4, label, anchor="end")
    for row, label in enumerate(attention_view.keys):
        drawing.label(left + gap + 16, top + row * row_height + 4, label)
    drawing.legend(16, drawing.height + 20, WEIGHT_TITLE, sequential, SHARE_TICKS)
    axes = (
        f"Left — {attention_view.query_axis}. Right — {attention_view.key_axis}. Weights below "
        f"{MIN_DRAWN_WEIGHT:g} have no line."
    )
    return finished(drawing, [axes, *attention_view.notes])
