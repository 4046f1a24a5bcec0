"""Pictures of what `measured` has recorded: normalisation, hidden units, and a head in numbers.

Shapes: S source and T target tokens, L layers, K = d_k, Kv = d_v, D = d_model.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.inspection.analyse.steps import projections_of
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.record import Array
from dragoman.inspection.views.drawing import Drawing, decimal, diverging, sequential, widest
from dragoman.inspection.views.labels import tokens_in
from dragoman.inspection.views.layout import SHARE_TICKS, draw_levels, finished, label_axes, sentences
from dragoman.inspection.views.numbers import plus_bias
from dragoman_paper.figures.measured import HiddenUnits, Normalisation

FEATURES = 24  # of d_model, which are drawn
CELL = 18.0


def largest(numbers: Array) -> float:
    """The greatest absolute value, for a scale; 1 if all are 0."""
    return float(np.abs(numbers).max(initial=0.0)) or 1.0


# ---- layer and batch normalisation (section 3.1)


def normalisation_picture(measurement: Normalisation, layer: int) -> str:
    """The numbers of a layer normalisation, with means over rows (layer) and over columns (batch)."""
    inspection = measurement.inspection
    tokens, note = tokens_in(inspection.source, "source")
    width = min(FEATURES, measurement.taken.shape[1])
    numbers = measurement.taken[: len(tokens), :width]
    most = largest(numbers)
    left, top = max(40 + widest(tokens), 104.0), 106.0
    right, bottom = left + CELL * width, top + CELL * len(tokens)
    drawing = Drawing(
        "layer-norm",
        f"Layer and batch normalisation of self-attention, encoder layer {layer + 1}",
        f"Rows are tokens, columns are features. Layer normalisation takes the mean of a row, batch "
        f"normalisation that of a column. {sentences(inspection)}",
    )
    drawing.text(
        left, top - 40, f"features 0 to {width - 1} of {measurement.taken.shape[1]}", css="fill-faint"
    )
    label_axes(drawing, tokens, [], left, top, CELL)
    drawing.rectangle(left, top, right - left, bottom - top, "fill-zero stroke-line")
    with drawing.group("cells"):
        draw_levels(drawing, numbers / most, diverging, left, top, CELL, CELL)
    draw_row_means(drawing, measurement.taken[: len(tokens)], right + 22, top)
    draw_column_means(drawing, measurement.taken[:, :width], left, bottom + 14)
    frame = "stroke-best curve", "stroke-self curve"
    drawing.rectangle(left, top, right - left, CELL, frame[0], stroke=3)
    drawing.rectangle(left, top, CELL, bottom - top, frame[1], stroke=3)
    ticks = [(-1.0, decimal(-most)), (0.0, "0"), (1.0, decimal(most))]
    drawing.legend(16, drawing.height + 26, "what the normalisation is given (no unit)", diverging, ticks)
    notes = [
        f"Orange: this model's layer normalisation takes mean and deviation of each token over all "
        f"{measurement.taken.shape[1]} features; other tokens and sentences do not matter.",
        "Blue: batch normalisation (--norm batch) would take them of each feature over all tokens of a batch "
        f"but padding, here of this sentence's {len(measurement.taken)}. They would depend on the other "
        "sentences.",
    ]
    return finished(drawing, [*notes, note])


def draw_row_means(drawing: Drawing, numbers: Array, x: float, top: float) -> None:
    """Mean and deviation of each row."""
    drawing.text(x, top - 24, "layer norm", 11, "fill-best", bold=True)
    drawing.text(x, top - 8, "mean", 11, "fill-faint")
    drawing.text(x + 52, top - 8, "deviation", 11, "fill-faint")
    for row, (mean, deviation) in enumerate(zip(numbers.mean(1), numbers.std(1), strict=True)):
        y = top + (row + 0.5) * CELL + 4
        drawing.text(x, y, decimal(float(mean)), 11, "fill-ink")
        drawing.text(x + 52, y, decimal(float(deviation)), 11, "fill-ink")


def draw_column_means(drawing: Drawing, numbers: Array, left: float, top: float) -> None:
    """Mean and deviation of each column, written upwards."""
    drawing.text(left - 8, top + 14, "batch norm", 11, "fill-self", "end", bold=True)
    drawing.text(left - 8, top + 30, "mean", 11, "fill-faint", "end")
    drawing.text(left - 8, top + 72, "deviation", 11, "fill-faint", "end")
    for column, (mean, deviation) in enumerate(zip(numbers.mean(0), numbers.std(0), strict=True)):
        x = left + (column + 0.5) * CELL + 4
        for y, value in ((top + 34, float(mean)), (top + 76, float(deviation))):
            drawing.text(x, y, decimal(value), 10.5, "fill-ink", "middle", turn=-90)
    drawing.reach(left, top + 92)


# ---- the feed-forward network (section 3.3)


def feed_forward_picture(measurement: HiddenUnits) -> str:
    """The share of hidden units that are 0: a cell for each layer and token, and means by layer."""
    inspection = measurement.inspection
    activation, d_ff = inspection.model.activation, f"{inspection.model.d_ff:,}"
    if (decoder := inspection.model.decoder_d_ff) is not None:
        d_ff += f", {decoder:,} in the decoder"
    drawing = Drawing(
        "feed-forward",
        f"Hidden units that are zero ({activation}, d_ff = {d_ff})",
        f"A cell is a layer and a token: the share of the feed-forward network's hidden units that are "
        f"exactly 0. {sentences(inspection)}",
    )
    notes = []
    for name, shares, tokens in (
        ("Encoder", measurement.encoder, inspection.source),
        ("Decoder", measurement.decoder, inspection.target),
    ):
        labels, note = tokens_in(tokens, "source" if name == "Encoder" else "target")
        draw_shares(drawing, name, shares, labels)
        notes.append(note)
    drawing.legend(16, drawing.height + 20, "share of hidden units that are 0", sequential, SHARE_TICKS)
    zeros = {
        "relu": "ReLU, max(0, x), makes every negative number 0 (equation 2): W₂ then "
        "multiplies few numbers that are not 0.",
    }.get(activation, f"{activation} is 0 only at 0, so almost no unit is exactly 0.")
    return finished(drawing, [zeros, *notes])


def draw_shares(drawing: Drawing, name: str, shares: Array, tokens: Sequence[str]) -> None:
    """A table [L S] below what is drawn."""
    top = drawing.height + 40 + 0.87 * widest(tokens)
    left, wide = 76.0, 34.0
    drawing.text(16, drawing.height + 24, name, 13, bold=True)
    label_axes(drawing, [], tokens, left, top, wide)
    end = left + wide * len(tokens) + 10
    drawing.text(end, top - 8, "mean", 11, "fill-faint")
    for layer, row in enumerate(shares):
        y = top + 24 * layer
        drawing.text(left - 10, y + 16, f"layer {layer + 1}", 11, "fill-faint", "end")
        for column, share in enumerate(row[: len(tokens)].tolist()):
            x, shade = left + wide * column, sequential(share)
            with drawing.group(title=f"layer {layer + 1}\n{tokens[column]}\n{share:.1%}"):
                drawing.cell(x, y, wide, 24, shade)
                drawing.text(x + wide / 2, y + 16, f"{100 * share:.1f}", 10.5, shade.label, "middle")
        drawing.text(end, y + 16, f"{row.mean():.1%}", 11)
    drawing.text(left, drawing.height + 18, "in %", 11, "fill-faint")


# ---- a head in numbers (section 3.2.1)


def head_matrices(inspection: Inspection, layer: int, head: int) -> str:
    """Q, K and V of a head of the encoder, counted from 0, as heat maps with one scale.

    Raises `DragomanError` as `projections_of`.
    """
    tokens, note = tokens_in(inspection.source, "source")
    projections = projections_of(inspection).encoder
    named_projections = {
        "Q, queries": projections.queries,
        "K, keys": projections.keys,
        "V, values": projections.values,
    }
    tables = {name: array[layer, head].astype(np.float32) for name, array in named_projections.items()}
    most = max(map(largest, tables.values()))
    widths = [table.shape[1] for table in tables.values()]
    left, cell = 40 + widest(tokens), max(2.0, min(10.0, 480 / max(widths)))
    drawing = Drawing(
        "query-key-value",
        f"Queries, keys and values: encoder layer {layer + 1}, head {head + 1}",
        f"Rows are tokens, columns are the head's dimensions. {sentences(inspection)}",
    )
    for name, table in tables.items():
        top = drawing.height + 44
        shape = f"[S = {len(table)}, {'d_v' if name[0] == 'V' else 'd_k'} = {table.shape[1]}]"
        drawing.text(16, top - 14, f"{name} {shape}", 13, bold=True)
        for row, token in enumerate(tokens):
            drawing.label(left - 8, top + 16 * row + 12, token, 11, anchor="end")
        drawing.rectangle(left, top, cell * table.shape[1], 16 * len(tokens), "fill-zero stroke-line")
        with drawing.group("cells", name):
            draw_levels(drawing, table[: len(tokens)] / most, diverging, left, top, cell, 16)
    ticks = [(-1.0, decimal(-most)), (0.0, "0"), (1.0, decimal(most))]
    drawing.legend(16, drawing.height + 24, "number (no unit)", diverging, ticks)
    bias, read = plus_bias(inspection), ", normalised" if inspection.model.norm == "pre" else ""
    formula = (
        f"Q = X W^Q{bias}, K = X W^K{bias}, V = X W^V{bias}: X are the layer's inputs{read}, the matrices "
    )
    formula += "this head's."
    return finished(drawing, [formula, note])
