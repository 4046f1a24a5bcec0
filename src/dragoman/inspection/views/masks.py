"""The view of the masks of a call: which keys a query may attend to (section 3.2.3)."""

from dragoman.inspection.record.masks import PADDING
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.heat_maps import Axis, HeatMap, HeatView, Measure, picture
from dragoman.inspection.views.labels import Window
from dragoman.inspection.views.layout import sentences

SOURCE, TARGET = "source", "decoder input"
TABLES = (
    ("encoder", "Padding: encoder self-attention", SOURCE, SOURCE),
    ("cross", "Padding: encoder-decoder attention", TARGET, SOURCE),
    ("causal", "Causal", TARGET, TARGET),
    ("decoder", "Both: decoder self-attention", TARGET, TARGET),
)
"""Of each mask its name, its heading, and the sides of its queries and keys."""


def masks(inspection: Record) -> HeatView | None:
    """Four tables of queries by keys: padding, causal, and both; none without self-attention."""
    recorded, model = inspection.masks, inspection.model
    if recorded is None:
        return None
    about = (
        "Each query attends to the filled cells of its row. The decoder's queries are what it reads, START "
        "first. One sentence alone has no padding: rows and columns of padding are what a longer sentence in "
        "the same batch would add. Results of a padding row are not used."
    )
    if model.neighbourhood is not None:
        about += f" Self-attention is restricted to a neighbourhood of {model.neighbourhood} positions."
    if not model.source_end:
        about += " The model may not attend to the source's end token (source_end = false)."
    allowed = Measure("mask", "mask", "mask", words=("not allowed", "allowed"))
    return HeatView(
        "masks",
        "Masks",
        about,
        {SOURCE: inspection.source, TARGET: inspection.decoder_inputs},
        [
            HeatMap(
                heading,
                heading,
                Axis(rows, "query", f"query: {rows} token"),
                Axis(columns, "key", f"key: {columns} token"),
                allowed,
                getattr(recorded, name),
                ("masks", name),
            )
            for name, heading, rows, columns in TABLES
        ],
        padding=PADDING,
    )


def masks_picture(inspection: Record, window: Window | None = None) -> str:
    """All four tables, with one row and one column of padding."""
    view = masks(inspection)
    assert view is not None  # `views.draw` has refused the others
    tables = f"Four tables of queries by keys: padding, causal, and both. {sentences(inspection)}"
    return picture(view, "Masks: which keys a query may attend to", tables, window=window)
