"""Where a head's word alignment differs from the translation's, as marks on the head's heat map of words.

Shapes: Q words of the translation, K source words.
"""

import torch

from dragoman.inspection.drawing import Drawing
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.labels import Window, in_window
from dragoman.inspection.words import numbered
from dragoman.translation.alignment import select_head, word_alignment

LOOKS = (
    ("the word alignment, where this picture's own differs", False),
    ("the word with the most attention here, in its place", True),
)
"""The marks: what each means, and whether its line is dashed."""
Cell = tuple[int, int]
"""A row and a column."""


def differences(inspection: Inspection, layer: int | None, head: int | None) -> tuple[list[Cell], list[Cell]]:
    """For words that the two alignments link to different source words: the cells of both.

    First those of the translation's word alignment, then those of this head (None: the mean of all).
    """
    weights = select_head(torch.tensor(inspection.attention.cross)[:, None], layer, head)[0]
    links = word_alignment(weights, inspection.source_words[:-1], inspection.target_words[:-1])
    own = {word: source for source, word in links}
    rows, columns = (
        dict(zip(words, numbered(words), strict=True))
        for words in (inspection.target_words, inspection.source_words)
    )
    differing = [
        (source, word) for source, word in inspection.alignment if word in own and own[word] != source
    ]
    return (
        [(rows[word], columns[source]) for source, word in differing],
        [(rows[word], columns[own[word]]) for _, word in differing],
    )


def mark_differences(
    drawing: Drawing,
    inspection: Inspection,
    layer: int | None,
    head: int | None,
    window: Window | None,
    left: float,
    top: float,
    cell: float,
) -> None:
    """Mark the cells of `differences` on a heat map [Q K] of words, and explain the marks below it."""
    both = differences(inspection, layer, head)
    sides = inspection.target_words, inspection.source_words
    rows, columns = (in_window(numbered(words)[-1] + 1, window) for words in sides)
    for cells, (meaning, dashed) in zip(both, LOOKS, strict=True):
        for row, column in cells:
            if rows.start <= row < rows.stop and columns.start <= column < columns.stop:
                x, y = left + (column - columns.start) * cell, top + (row - rows.start) * cell
                mark(drawing, x, y, cell, dashed, meaning)
    y = drawing.height + 14
    for line, (meaning, dashed) in enumerate(LOOKS if both[0] else ()):
        mark(drawing, 16, y + line * 24, 16, dashed)
        drawing.text(42, y + line * 24 + 13, meaning, css="fill-faint")


def mark(drawing: Drawing, x: float, y: float, size: float, dashed: bool, title: str = "") -> None:
    """The outline of a cell."""
    inner = size - 3
    data = f"M{x + 1.5:.1f} {y + 1.5:.1f}h{inner:.1f}v{inner:.1f}h{-inner:.1f}z"
    drawing.path(data, "curve stroke-best", title, stroke=2.5, dashed=dashed)
