"""The picture of what each head contributes to a translation.

Shapes: L layers, H heads.
"""

import numpy as np

from dragoman.inspection.analyse.ablation import HeadEffects
from dragoman.inspection.analyse.mean_effects import (
    CONFIDENCE,
    MIN_LINES,
    RESAMPLES,
    Interval,
    MeanHeadEffects,
)
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.views.attention_pictures import KIND_NAMES
from dragoman.inspection.views.drawing import Drawing, decimal, diverging
from dragoman.inspection.views.layout import finished, sentences

WIDTH, HEIGHT = 62.0, 28.0  # of a cell, in pixels


def head_effects_picture(inspection: Record, effects: HeadEffects) -> str:
    """The change of the translation's log-probability without each head, a table a use of attention."""
    tables = {kind: getattr(effects, kind) for kind in KIND_NAMES}
    largest = max(float(np.abs(table).max()) for table in tables.values()) or 1.0
    drawing = Drawing(
        "heads",
        "The translation's log-probability without a head",
        f"The change in nats if a head contributes nothing, by forced decoding. {sentences(inspection)}",
    )
    top = 60.0
    for kind, table in tables.items():
        drawing.text(16, top, KIND_NAMES[kind], 13, bold=True)
        draw_table(drawing, table, top + 12, largest)
        top += 12 + HEIGHT * (len(table) + 1) + 34
    stops = [(-1.0, decimal(-largest)), (0.0, "0"), (1.0, decimal(largest, sign="+"))]
    drawing.legend(16, drawing.height + 20, "change of log-probability, nats", diverging, stops)
    note = (
        f"With all heads it is {decimal(effects.log_probability, 3)}. A negative number: without the head "
        "the translation is less probable."
    )
    return finished(drawing, [note])


def mean_effects_picture(effects: MeanHeadEffects) -> str:
    """The mean effect of each head over the lines of a file, with its interval."""
    tables = {kind: getattr(effects, kind) for kind in KIND_NAMES}
    largest = max(float(np.abs(table.mean).max()) for table in tables.values()) or 1.0
    drawing = Drawing(
        "mean-heads",
        f"The log-probability of {effects.lines:,} translations without a head",
        "The mean change in nats of a line's translation if a head contributes nothing, by forced decoding.",
    )
    top, height = 60.0, 2 * HEIGHT - 12
    for kind, table in tables.items():
        drawing.text(16, top, KIND_NAMES[kind], 13, bold=True)
        draw_intervals(drawing, table, top + 12, largest, effects.lines >= MIN_LINES)
        top += 12 + HEIGHT + height * len(table.mean) + 34
    stops = [(-1.0, decimal(-largest)), (0.0, "0"), (1.0, decimal(largest, sign="+"))]
    drawing.legend(16, drawing.height + 20, "mean change of log-probability, nats", diverging, stops)
    bold = (
        "A mean is bold if its interval does not contain 0. Each interval is for one head: of 100 heads "
        "without any effect about 5 would be bold, and with only 10 lines about 10."
    )
    if effects.lines < MIN_LINES:
        bold = f"With fewer than {MIN_LINES} lines intervals are too narrow, and no mean is bold."
    notes = (
        f"With all heads the mean is {decimal(effects.log_probability, 3)}. A negative number: without the "
        "head the translations are less probable.",
        f"Below each mean is its {CONFIDENCE:.0%} interval, by bootstrap over lines ({RESAMPLES:,} "
        f"resamples). {bold}",
    )
    return finished(drawing, notes)


def draw_intervals(drawing: Drawing, table: Interval, top: float, largest: float, with_bold: bool) -> None:
    """As `draw_table`, with the interval below each mean; bold marks those that do not contain 0."""
    left, width, height = 76.0, 1.5 * WIDTH, 2 * HEIGHT - 12
    layers, heads = table.mean.shape
    for head in range(heads):
        drawing.text(left + (head + 0.5) * width, top + 18, f"head {head + 1}", 11, "fill-faint", "middle")
    for layer in range(layers):
        y = top + HEIGHT + height * layer
        drawing.text(left - 10, y + 19, f"layer {layer + 1}", 11, "fill-faint", "end")
        for head in range(heads):
            mean, low, high = (float(array[layer, head]) for array in (table.mean, table.low, table.high))
            x, shade = left + head * width, diverging(mean / largest)
            drawing.cell(x, y, width, height, shade)
            middle, bold = x + width / 2, with_bold and (low > 0 or high < 0)
            drawing.text(middle, y + 18, decimal(mean, 3, "+"), 11, shade.label, "middle", bold=bold)
            interval = f"{decimal(low, 3, '+')} to {decimal(high, 3, '+')}"
            drawing.text(middle, y + 34, interval, 9, shade.label, "middle")


def draw_table(drawing: Drawing, table: Array, top: float, largest: float) -> None:
    """A cell for each layer and head of [L H], below a row with the heads' numbers."""
    left = 76.0
    for head in range(table.shape[1]):
        drawing.text(left + (head + 0.5) * WIDTH, top + 18, f"head {head + 1}", 11, "fill-faint", "middle")
    for layer, row in enumerate(table.tolist()):
        y = top + HEIGHT * (layer + 1)
        drawing.text(left - 10, y + 19, f"layer {layer + 1}", 11, "fill-faint", "end")
        for head, change in enumerate(row):
            x, shade = left + head * WIDTH, diverging(change / largest)
            drawing.cell(x, y, WIDTH, HEIGHT, shade)
            drawing.text(x + WIDTH / 2, y + 19, decimal(change, 3, "+"), 11, shade.label, "middle")
