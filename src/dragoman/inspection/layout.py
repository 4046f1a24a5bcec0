"""What pictures share: matrices as cells, and notes at the foot. This module imports no torch."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dragoman.inspection.drawing import Drawing, Shade, cell_paths


def finished(drawing: Drawing, notes: Sequence[str]) -> str:
    """The picture with notes at its foot."""
    y = drawing.height + 26
    for note in notes:
        y = drawing.paragraph(16, y, note)
    return drawing.svg()


def draw_levels(
    drawing: Drawing,
    numbers: npt.NDArray[np.float32],
    scale: Callable[[float], Shade],
    x: float,
    y: float,
    width: float,
    height: float,
) -> None:
    """A matrix as cells of this size, a path for each number with two decimals."""
    levels = (np.nan_to_num(numbers).astype(np.float64).round(2) + 0.0).tolist()
    for level, data in sorted(cell_paths(levels, x, y, width, height).items()):
        shade = scale(level)
        drawing.path(data, shade.css, opacity=shade.opacity)
