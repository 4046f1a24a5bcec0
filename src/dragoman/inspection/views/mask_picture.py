"""The masks of a call as tables of queries by keys (section 3.2.3).

Shapes: Q queries, K keys, the last of each is padding.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.inspection.record.masks import Allowed
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.drawing import Drawing, widest
from dragoman.inspection.views.labels import Window, in_window, tokens_in
from dragoman.inspection.views.layout import finished, label_axes, sentences

PAD = "padding"


def masks(inspection: Record, window: Window | None = None) -> str:
    """Which keys a query may attend to: at padding, in the decoder, and with both masks."""
    assert inspection.masks is not None  # `views.draw` has refused the others
    source, source_note = tokens_in(inspection.source, "source", window)
    target, target_note = tokens_in(inspection.decoder_inputs, "decoder input", window)
    source_places = with_one_padding(len(inspection.source), window)
    target_places = with_one_padding(len(inspection.target), window)
    drawing = Drawing(
        "masks",
        "Masks: which keys a query may attend to",
        f"Four tables of queries by keys: padding, causal, and both. {sentences(inspection)}",
    )
    sources, targets = [*source, PAD], [*target, PAD]
    matrices = inspection.masks
    mask_table(drawing, "Padding: encoder self-attention", sources, sources, matrices.encoder, source_places)
    mask_table(
        drawing,
        "Padding: encoder-decoder attention",
        targets,
        sources,
        matrices.cross,
        target_places,
        source_places,
    )
    mask_table(drawing, "Causal", targets, targets, matrices.causal, target_places)
    mask_table(drawing, "Both: decoder self-attention", targets, targets, matrices.decoder, target_places)
    y = drawing.height + 24
    for row, (css, words) in enumerate((("fill-positive", "allowed"), ("fill-zero", "not allowed"))):
        drawing.rectangle(16, y + row * 24, 16, 16, f"{css} stroke-line")
        drawing.text(42, y + row * 24 + 13, words, css="fill-faint")
    neighbourhood_note = (
        f"Self-attention is restricted to a neighbourhood of {inspection.model.neighbourhood} positions."
        if inspection.model.neighbourhood is not None
        else ""
    )
    notes = [
        "A row is a query, a column is a key. The decoder's queries are what it reads, START first.",
        "This call has one sentence and no padding. The row and the column show what a longer neighbour "
        "adds; results of a padding row are not used.",
        neighbourhood_note,
        ""
        if inspection.model.source_end
        else "The model may not attend to the source's end token (source_end = false).",
        source_note,
        target_note,
    ]
    return finished(drawing, notes)


def with_one_padding(tokens: int, window: Window | None) -> list[int]:
    """The places of a side's tokens that are drawn, and that of its first padding."""
    drawn = in_window(tokens, window)
    return [*range(drawn.start, drawn.stop), tokens]


def mask_table(
    drawing: Drawing,
    name: str,
    queries: Sequence[str],
    keys: Sequence[str],
    allowed: Allowed,
    rows: Sequence[int],
    columns: Sequence[int] | None = None,
) -> None:
    """These rows and columns of a mask below what is drawn: filled where attending is allowed."""
    drawn = allowed[np.ix_(rows, rows if columns is None else columns)]
    cell, left = 16, 28 + widest(queries)
    y = drawing.height + 34
    top = y + 24 + 0.87 * widest(keys)
    drawing.text(16, y, name, 13, bold=True)
    label_axes(drawing, queries, keys, left, top, cell)
    with drawing.group("cells stroke-line"):
        for row, query in enumerate(queries):
            for column, key in enumerate(keys):
                fill, words = ("positive", "allowed") if drawn[row, column] else ("zero", "not allowed")
                x, title = left + column * cell, f"query: {query}\nkey: {key}\n{words}"
                drawing.rectangle(x, top + row * cell, cell, cell, f"fill-{fill}", title)
