"""The masks of attention as a picture (section 3.2.3). Shapes: S source tokens, Q queries, K keys."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dragoman.inspection.drawing import Drawing, widest
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.labels import tokens_in
from dragoman.inspection.layout import finished, label_axes, sentences

Allowed = npt.NDArray[np.bool_]
PADDING = "padding"


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
