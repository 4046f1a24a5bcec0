"""The view of the masks of a call: which keys a query may attend to (section 3.2.3)."""

from dragoman.inspection.record.masks import PADDING
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.heat_maps import Axis, HeatMap, HeatView, Measure, picture
from dragoman.inspection.views.labels import Window
from dragoman.inspection.views.layout import sentences

SOURCE, TARGET = "source", "decoder input"
MAPS = (
    ("encoder", "Padding: encoder self-attention", SOURCE, SOURCE),
    ("cross", "Padding: encoder-decoder attention", TARGET, SOURCE),
    ("decoder", "Causal: decoder self-attention", TARGET, TARGET),
)
"""Of each mask its name, its heading, and the sides of its queries and keys."""


def masks_view(inspection: Record) -> HeatView | None:
    """Three maps of queries by keys: padding, and causal; none without self-attention."""
    masks, model = inspection.masks, inspection.model
    if masks is None:
        return None
    about = (
        "Each query attends to the filled cells of its row. The decoder's queries are what it reads, START "
        "first. One sentence alone has no padding: rows and columns of padding are what a longer sentence in "
        "the same batch would add. A target's padding needs no mask of its own: it is after all tokens, "
        "where the causal mask hides it. Results of a padding row are not used."
    )
    if model.neighbourhood is not None:
        about += f" Self-attention is restricted to a neighbourhood of {model.neighbourhood} positions."
    if not model.source_end:
        about += " The model may not attend to the source's end token (source_end = false)."
    maps = [
        HeatMap(
            heading,
            heading,
            Axis(queries, "query", f"query: {queries} token"),
            Axis(keys, "key", f"key: {keys} token"),
            Measure("mask", words=("not allowed", "allowed")),
            getattr(masks, name),
            ("masks", name),
        )
        for name, heading, queries, keys in MAPS
    ]
    names = {SOURCE: inspection.source, TARGET: inspection.decoder_inputs}
    return HeatView("masks", about, names, maps, padding=PADDING)


def masks_picture(inspection: Record, window: Window | None = None) -> str:
    """All maps, with one row and one column of padding."""
    view = masks_view(inspection)
    assert view is not None  # `views.draw` has refused the others
    about = f"Three tables of queries by keys: padding of both kinds, and causal. {sentences(inspection)}"
    return picture(view, "Masks: which keys a query may attend to", about, window=window)
