"""A picture as PNG. This module imports no torch."""

from dragoman.inspection.views.drawing import in_light_colours
from dragoman.system.errors import DragomanError


def to_png(svg: str) -> bytes:
    """The picture in light colours, two pixels a unit. Raises `DragomanError` without vl-convert."""
    try:
        import vl_convert
    except ImportError as error:
        raise DragomanError("PNG needs vl-convert: pip install 'dragoman[plot]', or write .svg.") from error
    # Few fonts have ▁, and resvg draws a whole text in the first one that has all its characters.
    return vl_convert.svg_to_png(in_light_colours(svg).replace("▁", "_"), scale=2)
