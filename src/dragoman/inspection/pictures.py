"""Pictures of an inspection as SVG, a function each. Axes with more than 60 tokens show a window.

Shapes: S source and T target tokens, N layers, H heads, Q queries, K keys, D = d_model.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from dragoman.inspection.architecture import draw_architecture, parameters
from dragoman.inspection.drawing import (
    Axes,
    Drawing,
    diverging,
    sequential,
    visible,
    widest,
)
from dragoman.inspection.inspection import Array, Inspection
from dragoman.inspection.labels import MOST_TOKENS, SUBLAYERS, View, Window, in_window, tokens_in, view
from dragoman.inspection.layout import draw_levels, finished
from dragoman.inspection.tree import draw_tree, search_name, tree_columns
from dragoman.inspection.views import Kind
from dragoman.translation.alignment import select_head

Allowed = npt.NDArray[np.bool_]
PADDING = "padding"

SHARES = [(0.0, "0"), (0.25, "0.25"), (0.5, "0.5"), (0.75, "0.75"), (1.0, "1")]
WEIGHT = "attention weight, a share of the query's 1"
NAMES: dict[Kind, str] = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}


def sentences(inspection: Inspection) -> str:
    """The sentence and its translation, for a picture's description."""
    return f"Sentence: {inspection.sentence} Translation: {inspection.translation}"


# ---- attention (section 3.2)


def attention_grid(
    inspection: Inspection, kind: Kind, words: bool = False, window: Window | None = None
) -> str:
    """All heads as small heat maps: a row for each layer, a column for each head."""
    seen = view(inspection, kind, words, window)
    layers, heads, queries, keys = seen.weights.shape
    cell = max(2, min(8, 104 // max(queries, keys)))
    wide, high, left, top = cell * keys, cell * queries, 76, 72
    drawing = Drawing(
        f"attention-grid-{kind}",
        f"{NAMES[kind]}: {layers} layers × {heads} heads",
        f"In each map a row is a query and a column is a key; darker (lighter on dark) is more weight. "
        f"{sentences(inspection)}",
    )
    for head in range(heads):
        x = left + head * (wide + 14) + wide / 2
        drawing.text(x, top - 10, f"head {head + 1}", 11, "fill-faint", "middle")
    for layer in range(layers):
        y = top + layer * (high + 14)
        drawing.text(left - 10, y + high / 2 + 4, f"layer {layer + 1}", 11, "fill-faint", "end")
        for head in range(heads):
            heat_map(drawing, seen, layer, head, left + head * (wide + 14), y, cell)
    drawing.legend(left, drawing.height + 20, WEIGHT, sequential, SHARES)
    rows = "Rows are queries from top to bottom, columns are keys from left to right."
    return finished(drawing, [rows, *seen.notes])


def heat_map(drawing: Drawing, seen: View, layer: int, head: int, x: float, y: float, cell: float) -> None:
    """A head as a small heat map. Weights are rounded to two decimals."""
    weights = seen.weights[layer, head]
    queries, keys = weights.shape
    with drawing.group("cells", f"layer {layer + 1}, head {head + 1}"):
        drawing.rectangle(x, y, cell * keys, cell * queries, "fill-zero stroke-line")
        draw_levels(drawing, weights, sequential, x, y, cell, cell)


def selected(seen: View, layer: int | None, head: int | None) -> tuple[Array, str]:
    """The weights [Q K] of a layer and head, counted from 1, and their name. Raises as `select_head`."""
    weights = select_head(torch.tensor(seen.weights)[:, None], layer, head)[0].numpy()
    layers, heads = seen.weights.shape[:2]
    of = f"mean of {heads} heads" if head is None else f"head {head}"
    return weights, f"{NAMES[seen.kind]}, layer {layers if layer is None else layer}, {of}"


def attention_head(
    inspection: Inspection,
    kind: Kind,
    layer: int | None,
    head: int | None,
    words: bool = False,
    window: Window | None = None,
) -> str:
    """One head as a heat map with its tokens. None is the last layer and the mean of all heads.

    Raises `DragomanError` if the model has no such layer or head.
    """
    seen = view(inspection, kind, words, window)
    weights, name = selected(seen, layer, head)
    cell = 24 if max(weights.shape) <= 30 else 16
    left, top = 44 + widest(seen.queries), 78 + 0.87 * widest(seen.keys)
    drawing = Drawing(
        f"attention-{kind}-{layer or 'last'}-{head or 'mean'}",
        name,
        f"Rows: {seen.query_axis}. Columns: {seen.key_axis}. {sentences(inspection)}",
    )
    drawing.text(16, 50, f"columns — {seen.key_axis}", css="fill-faint")
    label_axes(drawing, seen.queries, seen.keys, left, top, cell)
    drawing.rectangle(left, top, cell * len(seen.keys), cell * len(seen.queries), "fill-zero stroke-line")
    with drawing.group("cells weights"):
        for row, query in enumerate(seen.queries):
            for column, key in enumerate(seen.keys):
                weight = float(weights[row, column])
                shade = sequential(weight)
                x, y = left + column * cell, top + row * cell
                title = f"query: {query}\nkey: {key}\nweight: {weight:.3f}"
                drawing.rectangle(x, y, cell, cell, shade.css, title, opacity=shade.opacity)
    y = drawing.height + 24
    drawing.text(16, y, f"rows — {seen.query_axis}", css="fill-faint")
    drawing.legend(16, y + 14, WEIGHT, sequential, SHARES)
    return finished(drawing, seen.notes)


def label_axes(
    drawing: Drawing, rows: Sequence[str], columns: Sequence[str], left: float, top: float, cell: float
) -> None:
    """Labels to the left of rows and above columns."""
    for row, label in enumerate(rows):
        drawing.label(left - 8, top + (row + 0.5) * cell + 4, label, anchor="end")
    for column, label in enumerate(columns):
        drawing.label(left + (column + 0.5) * cell + 3, top - 8, label, turn=-60)


def attention_lines(
    inspection: Inspection,
    kind: Kind,
    layer: int | None,
    head: int | None,
    words: bool = False,
    window: Window | None = None,
) -> str:
    """One head as lines from queries to keys, as in the paper's Figures 3 to 5. Opacity is the weight.

    None is the last layer and the mean of all heads. Raises `DragomanError` if the model has no such layer or
    head.
    """
    seen = view(inspection, kind, words, window)
    weights, name = selected(seen, layer, head)
    left, top, row_height, gap = 24 + widest(seen.queries), 84, 24, 170
    drawing = Drawing(
        f"lines-{kind}-{layer or 'last'}-{head or 'mean'}",
        name,
        f"A line joins a query on the left and a key on the right; its opacity is the weight. "
        f"{sentences(inspection)}",
    )
    drawing.text(left, top - 22, "query", css="fill-faint", anchor="end")
    drawing.text(left + gap + 16, top - 22, "key", css="fill-faint")
    with drawing.group("weights"):
        for row, query in enumerate(seen.queries):
            for column, key in enumerate(seen.keys):
                if (weight := float(weights[row, column])) >= 0.005:
                    ends = [(left + 8, top + row * row_height), (left + gap + 8, top + column * row_height)]
                    title = f"query: {query}\nkey: {key}\nweight: {weight:.3f}"
                    drawing.polyline(ends, "stroke-positive", title, opacity=min(weight, 1.0), stroke=3)
    for row, label in enumerate(seen.queries):
        drawing.label(left, top + row * row_height + 4, label, anchor="end")
    for row, label in enumerate(seen.keys):
        drawing.label(left + gap + 16, top + row * row_height + 4, label)
    drawing.legend(16, drawing.height + 20, WEIGHT, sequential, SHARES)
    axes = f"Left — {seen.query_axis}. Right — {seen.key_axis}. Weights below 0.005 have no line."
    return finished(drawing, [axes, *seen.notes])


# ---- the beam (section 6.1)


def beam_tree(inspection: Inspection) -> str:
    """All hypotheses of the search: a column for each step, lines from a hypothesis to its extensions."""
    steps = tree_columns(inspection.nodes)
    last, hypotheses = len(steps) - 1, len(inspection.nodes) - 1
    drawing = Drawing(
        "beam-tree",
        f"{search_name(inspection)}; {hypotheses} hypotheses in {last} steps",
        "A box is a hypothesis: its last token and its log-probability in nats. The thick orange path is the "
        f"translation. {sentences(inspection)}",
    )
    draw_tree(drawing, inspection, steps[: MOST_TOKENS + 1])
    more = f"Only the first {MOST_TOKENS} of {last} steps are drawn."
    return finished(drawing, [more] * (last > MOST_TOKENS))


# ---- masks (section 3.2.3)


def masks(inspection: Inspection) -> str:
    """Which keys a query may attend to: at padding, in the decoder, and with both masks."""
    source, source_note = tokens_in(inspection.source, "source")
    target, target_note = tokens_in(inspection.target, "target")
    inputs, _ = tokens_in(inspection.decoder_inputs, "target")
    readable = np.ones(len(source) + 1, bool)  # [S + 1], the last of them is padding
    readable[-1] = False
    if not inspection.model.source_end and len(source) == len(inspection.source):
        readable[-2] = False
    padding = near(len(source) + 1, inspection.model.neighbourhood) & readable
    causal = near(len(target), inspection.model.neighbourhood) & np.tri(len(target), dtype=bool)
    both = np.pad(causal, (0, 1))
    both[-1, :-1] = near(len(target) + 1, inspection.model.neighbourhood)[-1, :-1]
    drawing = Drawing(
        "masks",
        "Masks: which keys a query may attend to",
        f"Three tables of queries by keys: padding, causal, and both. {sentences(inspection)}",
    )
    mask_table(drawing, "Padding: source tokens", [*source, PADDING], [*source, PADDING], padding)
    mask_table(drawing, "Causal: the decoder's self-attention", target, inputs, causal)
    mask_table(drawing, "Both: target tokens with padding", [*target, PADDING], [*inputs, PADDING], both)
    y = drawing.height + 24
    for row, (css, words) in enumerate((("fill-positive", "allowed"), ("fill-zero", "not allowed"))):
        drawing.rectangle(16, y + row * 24, 16, 16, f"{css} stroke-line")
        drawing.text(42, y + row * 24 + 13, words, css="fill-faint")
    notes = [
        "This call has one sentence and no padding. The row and the column show what a longer neighbour "
        "adds; results of a padding row are not used.",
        "Encoder-decoder attention has the columns of the first table for each target token.",
    ]
    if inspection.model.neighbourhood is not None:
        notes[1] = (
            f"Self-attention is restricted to a neighbourhood of {inspection.model.neighbourhood} positions. "
            "In encoder-decoder attention each target token may attend to all source tokens."
        )
    end = "The model may not attend to the source's end token (source_end = false)."
    return finished(drawing, [*notes, *[end] * (not inspection.model.source_end), source_note, target_note])


def near(tokens: int, neighbourhood: int | None) -> Allowed:
    """Which positions self-attention reaches [Q K]: all, or those of a neighbourhood (section 4)."""
    distances = np.abs(np.subtract.outer(np.arange(tokens), np.arange(tokens)))
    return distances <= (tokens if neighbourhood is None else neighbourhood // 2)


def mask_table(
    drawing: Drawing, name: str, queries: Sequence[str], keys: Sequence[str], allowed: Allowed
) -> None:
    """A table [Q K] below what is drawn: filled where attending is allowed."""
    cell, left = 16, 28 + widest(queries)
    y = drawing.height + 34
    top = y + 24 + 0.87 * widest(keys)
    drawing.text(16, y, name, 13, bold=True)
    label_axes(drawing, queries, keys, left, top, cell)
    with drawing.group("cells stroke-line"):
        for row, query in enumerate(queries):
            for column, key in enumerate(keys):
                fill, words = ("positive", "allowed") if allowed[row, column] else ("zero", "not allowed")
                x, title = left + column * cell, f"query: {query}\nkey: {key}\n{words}"
                drawing.rectangle(x, top + row * cell, cell, cell, f"fill-{fill}", title)


# ---- positions (section 3.5)


def positions(inspection: Inspection) -> str:
    """The position table as a heat map: rows are positions, columns are dimensions."""
    table = inspection.positions[:MOST_TOKENS]
    count, width = table.shape
    most = float(np.abs(table).max(initial=0)) or 1.0
    cell, height, left, top = max(1.0, min(8.0, 640 / width)), 10, 52, 76
    drawing = Drawing(
        "positions",
        f"Positions: {count} rows of the {inspection.model.positions} table",
        f"Rows are positions, columns are the {width} dimensions; blue is positive and orange is negative.",
    )
    drawing.text(16, top - 24, "position", css="fill-faint")
    for row in range(0, count, 5):
        drawing.text(left - 8, top + row * height + 9, str(row), 11, "fill-faint", "end")
    with drawing.group("cells"):
        drawing.rectangle(left, top, cell * width, height * count, "fill-zero stroke-line")
        draw_levels(drawing, table / most, diverging, left, top, cell, height)
    bottom = top + height * count
    for place in sorted({0, width // 4, width // 2, 3 * width // 4, width - 1}):
        drawing.text(left + (place + 0.5) * cell, bottom + 17, str(place), 11, "fill-faint", "middle")
    drawing.text(left + cell * width / 2, bottom + 36, "dimension", css="fill-faint", anchor="middle")
    labels = [(-1.0, f"−{most:.3g}"), (0.0, "0"), (1.0, f"{most:.3g}")]
    drawing.legend(left, bottom + 52, "number in the table (no unit)", diverging, labels)
    more = f"Only the first {MOST_TOKENS} of {len(inspection.positions)} positions are drawn."
    return finished(drawing, [more] * (len(inspection.positions) > MOST_TOKENS))


def position_products(inspection: Inspection) -> str:
    """Dot products of rows of the position table against their distance, a line for each first row."""
    table = inspection.positions[:MOST_TOKENS]
    products = table @ table.T  # [P, P]
    low, high = min(float(products.min()), 0.0), max(float(products.max()), 1e-9)
    drawing = Drawing(
        "position-products",
        "Positions: dot product against distance",
        "A line for each position p: the dot product of PE(p) and PE(p + k) against the distance k. For the "
        "paper's sinusoids the lines are the same, because the product depends on the distance alone.",
    )
    axes = Axes(drawing, 64, 84, 460, 240, (0, max(len(table) - 1, 1)), (low, high))
    axes.draw("distance k (positions)", "PE(p) · PE(p + k), no unit")
    for first in reversed(range(len(table))):
        points = [axes.place(k, float(product)) for k, product in enumerate(products[first, first:])]
        look = {True: ("stroke-best", 1.0, 3.0), False: ("stroke-self", 0.35, 1.0)}[first == 0]
        drawing.polyline(points, look[0], f"p = {first}", look[1], look[2])
    more = f"Only the first {MOST_TOKENS} of {len(inspection.positions)} positions are drawn."
    notes = ["The thick line has p = 0, the thin ones later positions."]
    return finished(drawing, notes + [more] * (len(inspection.positions) > MOST_TOKENS))


# ---- the residual stream


PARTS = {
    "input": ("stream", "on-low"),
    "self-attention": ("self", "on-high"),
    "convolution": ("self", "on-high"),
    "encoder-decoder attention": ("cross", "on-middle"),
    "feed-forward": ("feed", "on-middle"),
}
"""What a layer's output is the sum of, with the colour of each and that of a label on it."""


def residual_stream(inspection: Inspection, window: Window | None = None) -> str:
    """Norms of the residual stream by layer, a line for each position, and the shares of sub-layers."""
    stream, (encoder, decoder) = inspection.stream, SUBLAYERS[inspection.model.architecture]
    source, source_note = tokens_in(inspection.source, "source", window)
    target, target_note = tokens_in(inspection.target, "target", window)
    drawing = Drawing(
        "residual-stream",
        "The residual stream",
        "Norms of each position's features after the embedding and after each layer, and what each sub-layer "
        f"adds. {sentences(inspection)}",
    )
    norm_chart(drawing, "Encoder", stream.encoder, source, in_window(len(inspection.source), window).start)
    share_bars(drawing, stream.encoder, stream.encoder_sublayers, encoder)
    norm_chart(drawing, "Decoder", stream.decoder, target, in_window(len(inspection.target), window).start)
    share_bars(drawing, stream.decoder, stream.decoder_sublayers, decoder)
    y = drawing.height + 26
    for row, name in enumerate(["input", *decoder]):
        drawing.rectangle(16, y + row * 24, 16, 16, f"fill-{PARTS[name][0]} stroke-line")
        drawing.text(42, y + row * 24 + 13, name, css="fill-faint")
    shares = (
        "A share is the norm of what a sub-layer adds, divided by the sum of these norms and that of the "
        "layer's input; means over positions."
    )
    return finished(drawing, [shares, source_note, target_note])


def norm_chart(drawing: Drawing, side: str, norms: Array, tokens: Sequence[str], first: int) -> None:
    """Norms [N+1 P] by layer below what is drawn, a line for each token, the first at position `first`."""
    layers, _ = norms.shape
    y = drawing.height + 30
    drawing.text(16, y, side, 13, bold=True)
    axes = Axes(drawing, 64, y + 44, 460, 180, (0, layers - 1), (0, float(norms.max(initial=1e-9))))
    labels = [(float(n), "embedding" if n == 0 else str(n)) for n in range(layers)]
    axes.draw("layer", "norm of the features (no unit)", labels)
    for place, token in enumerate(tokens, first):
        points = [axes.place(layer, float(norms[layer, place])) for layer in range(layers)]
        last = place == first + len(tokens) - 1
        title = f"position {place}: {token}\n" + ", ".join(f"{norm:.2f}" for norm in norms[:, place])
        drawing.polyline(points, "stroke-best" if last else "stroke-self", title, 1.0 if last else 0.5, 2)
    words = "A line is a position; the orange one is the last that is drawn."
    drawing.paragraph(64, drawing.height + 18, words)


def share_bars(drawing: Drawing, norms: Array, sublayers: Array, names: Sequence[str]) -> None:
    """A bar for each layer below what is drawn: the shares of its input and of what sub-layers add."""
    parts = np.concatenate([norms[:-1, None], sublayers], 1)  # [N, 1 + sub-layers, P]
    shares = (parts / np.maximum(parts.sum(1, keepdims=True), 1e-9)).mean(2)  # [N, 1 + sub-layers]
    left, top, width = 64.0, drawing.height + 14, 460.0
    for layer, row in enumerate(shares.tolist()):
        x, y = left, top + layer * 26
        drawing.text(left - 8, y + 14, f"layer {layer + 1}", 11, "fill-faint", "end")
        for name, share in zip(["input", *names], row, strict=True):
            colour, label = PARTS[name]
            title = f"layer {layer + 1}, {name}: {share:.1%}"
            with drawing.group(title=title):
                drawing.rectangle(x, y, width * share, 20, f"fill-{colour} stroke-paper")
                if share > 0.08:
                    middle = x + width * share / 2
                    drawing.text(middle, y + 14, f"{share:.0%}", 11, f"fill-{label}", "middle")
            x += width * share
    drawing.text(
        left, drawing.height + 17, "share of the input and of each sub-layer, in %", 11, "fill-faint"
    )


def lens(inspection: Inspection, window: Window | None = None) -> str:
    """The likeliest next token after each decoder layer, for each target token (logit lens)."""
    tokens, note = tokens_in(inspection.target, "target", window)
    start = in_window(len(inspection.target), window).start
    first = [[layer[start + row][0] for layer in inspection.lens] for row in range(len(tokens))]  # [T, N]
    labels = [[visible(each.token) for each in row] for row in first]
    wide = max(76.0, max((widest(row) for row in labels), default=0.0) + 50)
    left, top, height = 28 + widest(tokens), 84.0, 26.0
    drawing = Drawing(
        "lens",
        "Likeliest token after each decoder layer",
        f"What the output projection would predict if the decoder ended at a layer. {sentences(inspection)}",
    )
    for layer in range(len(inspection.lens)):
        x = left + (layer + 0.5) * wide
        drawing.text(x, top - 10, f"layer {layer + 1}", 11, "fill-faint", "middle")
    for row, token in enumerate(tokens):
        y = top + row * height
        drawing.label(left - 10, y + 17, token, anchor="end")
        for layer, (best, label) in enumerate(zip(first[row], labels[row], strict=True)):
            x, share = left + layer * wide, math.exp(best.log_probability)
            with drawing.group(title=f"layer {layer + 1}\n{label}\nprobability: {share:.3f}"):
                drawing.rectangle(x, y, wide, height, "fill-zero stroke-grid")
                shade, same = sequential(share), label == token
                drawing.rectangle(x, y, wide, height, shade.css, opacity=shade.opacity)
                drawing.label(x + 6, y + 17, label, css=shade.label, bold=same)
                drawing.text(x + wide - 6, y + 17, f"{share:.2f}", 11, shade.label, "end")
    drawing.legend(16, drawing.height + 20, "probability of the likeliest token", sequential, SHARES)
    rows = "A row is a token of the translation. Bold: the layer predicts this token."
    return finished(drawing, [rows, note])


# ---- the model (section 3.1)


def architecture(inspection: Inspection) -> str:
    """The paper's Figure 1 for this model, with the shapes of this call and numbers of parameters."""
    model = inspection.model
    drawing = Drawing(
        "architecture",
        "The Transformer of this model",
        f"The paper's Figure 1: {model.encoder_layers} encoder layers on the left and {model.decoder_layers} "
        f"decoder layers on the right, each with {model.norm}-norm.",
    )
    draw_architecture(drawing, inspection)
    lengths = (
        f"In this call S = {len(inspection.source)} source and T = {len(inspection.target)} target tokens; "
        f"d_model = {model.d_model}; V is the size of the target vocabulary."
    )
    layers = (
        f"An encoder layer has {parameters(model, 'encoder.0'):,} parameters, a decoder layer "
        f"{parameters(model, 'decoder.0'):,}."
    )
    return finished(drawing, [lengths, layers])
