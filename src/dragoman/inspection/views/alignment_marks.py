"""Where a head's word alignment differs from the translation's, as marks on the head's heat map.

Shapes: Q words or tokens of the translation, K source words or tokens.
"""

from collections.abc import Sequence

import torch

from dragoman.inspection.record.record import Record
from dragoman.inspection.record.words import numbered
from dragoman.inspection.views.drawing import Drawing
from dragoman.inspection.views.labels import Window, in_window
from dragoman.translation.alignment import select_head, word_alignment

LOOKS = (
    ("link of the word alignment that differs from this map", False),
    ("the largest weight of this map for the same word", True),
)
"""The marks: what each means, and whether its line is dashed."""


def differences(inspection: Record, layer: int | None, head: int | None) -> dict[int, tuple[int, int]]:
    """For each word of the translation that the two alignments link to different source words: both of these.

    First that of the translation's word alignment, then that of this head (None: the mean of all).
    """
    weights = select_head(torch.tensor(inspection.attention.cross)[:, None], layer, head)[0]
    links = word_alignment(weights, inspection.source_words[:-1], inspection.target_words[:-1])
    head_links = {word: source for source, word in links}
    return {
        word: (source, head_links[word])
        for source, word in inspection.alignment
        if word in head_links and head_links[word] != source
    }


def places_of(words: Sequence[int], in_words: bool) -> dict[int, list[int]]:
    """The rows or columns of each word: those of its tokens, or one if a row is a word."""
    if in_words:
        return {word: [place] for word, place in zip(words, numbered(words), strict=True)}
    places: dict[int, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    return places


def mark_differences(
    drawing: Drawing,
    inspection: Record,
    layer: int | None,
    head: int | None,
    in_words: bool,
    window: Window | None,
    left: float,
    top: float,
    cell: float,
) -> None:
    """Mark both words of each of the `differences` on a heat map [Q K], and explain the marks below it."""
    rows, columns = (
        drawn_places(words, in_words, window) for words in (inspection.target_words, inspection.source_words)
    )
    drawn = False
    for word, link_pair in differences(inspection, layer, head).items():
        for source, (meaning, dashed) in zip(link_pair, LOOKS, strict=True):
            if rows[word] and columns[source]:
                drawn = True
                x, y = left + columns[source][0] * cell, top + rows[word][0] * cell
                size = len(columns[source]) * cell, len(rows[word]) * cell
                mark(drawing, x, y, *size, dashed, meaning)
    y = drawing.height + 14
    for line, (meaning, dashed) in enumerate(LOOKS if drawn else ()):
        mark(drawing, 16, y + line * 24, 16, 16, dashed)
        drawing.text(42, y + line * 24 + 13, meaning, css="fill-faint")


def drawn_places(words: Sequence[int], in_words: bool, window: Window | None) -> dict[int, list[int]]:
    """`places_of` in the window, counted from its first."""
    places = places_of(words, in_words)
    drawn = in_window(1 + max(place for word_places in places.values() for place in word_places), window)
    return {
        word: [place - drawn.start for place in word_places if drawn.start <= place < drawn.stop]
        for word, word_places in places.items()
    }


def mark(
    drawing: Drawing, x: float, y: float, width: float, height: float, dashed: bool, title: str = ""
) -> None:
    """The outline of cells."""
    data = f"M{x + 1.5:.1f} {y + 1.5:.1f}h{width - 3:.1f}v{height - 3:.1f}h{3 - width:.1f}z"
    drawing.path(data, "curve stroke-best", title, stroke=2.5, dashed=dashed)
