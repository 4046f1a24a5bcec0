"""The pictures of an inspection by name."""

from collections.abc import Callable
from typing import get_args

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.record import Record
from dragoman.inspection.views import (
    alignment_picture,
    architecture,
    attention_pictures,
    convolutional_pictures,
    enriched_pictures,
    masks,
    neurons_picture,
    numbers,
    position_pictures,
    recurrent_pictures,
    statistics_picture,
    stream_pictures,
    tree,
)
from dragoman.inspection.views.pictures import Picture
from dragoman.system.errors import DragomanError


def draw(
    inspection: Record,
    view: Picture,
    layer: int | None,
    head: int | None,
    lines: bool,
    words: bool,
    window: tuple[int, int] | None,
    kind: Kind | None,
    query: int,
    neuron: int | None,
) -> str:
    """A picture as SVG: see `Inspection.svg`. Raises as it does."""
    if view not in get_args(Picture):
        raise DragomanError(f"There is no view {view!r}; the views are {', '.join(get_args(Picture))}.")
    if window is not None:
        refuse_window(inspection, window)
    architecture_views: dict[str, Callable[[], str]] = {}  # of an architecture that is not the Transformer
    if inspection.model.architecture == "conv":
        convolutional_pictures.check_view(view)
        architecture_views = {"model": lambda: convolutional_pictures.architecture(inspection)}
    elif inspection.model.architecture.endswith("-enriched"):
        enriched_pictures.check_view(view)
    elif inspection.model.architecture != "transformer":
        recurrent_pictures.check_view(inspection, view)
        architecture_views = {
            "stream": lambda: recurrent_pictures.states(inspection, window),
            "model": lambda: recurrent_pictures.architecture(inspection),
        }
    if view in architecture_views:
        return architecture_views[view]()
    if view in ("encoder", "decoder", "cross"):
        if layer is None:
            return attention_pictures.attention_grid(inspection, view, words, window)
        draw_head = attention_pictures.attention_lines if lines else attention_pictures.attention_head
        return draw_head(inspection, view, layer, head, words, window)
    common_views: dict[Picture, Callable[[], str]] = {
        "beam": lambda: tree.beam_tree(inspection, window),
        "alignment": lambda: alignment_picture.alignment(inspection, window),
        "numbers": lambda: numbers.numbers(inspection, kind or "cross", layer, head, query, window),
        "statistics": lambda: statistics_picture.statistics_table(inspection, kind or "cross"),
        "masks": lambda: masks.masks_picture(inspection, window),
        "positions": lambda: position_pictures.positions(inspection, window),
        "distances": lambda: position_pictures.position_products(inspection, window),
        "stream": lambda: stream_pictures.residual_stream(inspection, window),
        "lens": lambda: stream_pictures.lens(inspection, window),
        "neurons": lambda: neurons_picture.neurons_picture(inspection, kind, layer, neuron, window),
        "model": lambda: architecture.architecture(inspection),
    }
    return common_views[view]()


def refuse_window(inspection: Record, window: tuple[int, int]) -> None:
    """Raise `DragomanError` if the window begins after the last token of both sentences."""
    longest = max(len(inspection.source), len(inspection.target))
    if window[0] > longest:
        raise DragomanError(
            f"The window begins at token {window[0]}, and the sentence and its translation have at most "
            f"{longest} tokens; give a window of these."
        )
