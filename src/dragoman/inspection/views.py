"""The pictures of an inspection by name. This module imports no torch."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dragoman.inspection.inspection import Inspection

Picture = Literal[
    "beam", "encoder", "decoder", "cross", "masks", "positions", "distances", "stream", "lens", "model"
]


def draw(inspection: "Inspection", view: Picture, layer: int | None, head: int | None, lines: bool) -> str:
    """A picture as SVG: see `Inspection.svg`."""
    from dragoman.inspection import pictures

    if view in ("encoder", "decoder", "cross"):
        if layer is None:
            return pictures.attention_grid(inspection, view)
        draw_head = pictures.attention_lines if lines else pictures.attention_head
        return draw_head(inspection, view, layer, head)
    others = {
        "beam": pictures.beam_tree,
        "masks": pictures.masks,
        "positions": pictures.positions,
        "distances": pictures.position_products,
        "stream": pictures.residual_stream,
        "lens": pictures.lens,
        "model": pictures.architecture,
    }
    return others[view](inspection)
