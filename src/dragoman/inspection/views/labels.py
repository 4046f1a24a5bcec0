"""What the rows and columns of a picture are: tokens or words, those of a window of a long sentence.

Shapes: N layers, H heads, Q queries, K keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.record.words import by_words
from dragoman.inspection.views.drawing import visible
from dragoman.system.errors import DragomanError

MAX_TOKENS = 60  # that are drawn without a window

SUBLAYERS = {
    "transformer": (
        ["self-attention", "feed-forward"],
        ["self-attention", "encoder-decoder attention", "feed-forward"],
    ),
    "conv": (["convolution"], ["convolution", "encoder-decoder attention"]),
    **dict.fromkeys(
        ("lstm-enriched", "gru-enriched"),
        (["recurrence", "feed-forward"], ["recurrence", "encoder-decoder attention", "feed-forward"]),
    ),
    "conv-enriched": (
        ["convolution", "feed-forward"],
        ["convolution", "encoder-decoder attention", "feed-forward"],
    ),
}
"""The parts of an encoder layer and of a decoder layer that add to the residual stream, by architecture."""

Window = tuple[int, int]
"""The first and the last token that are drawn, counted from 1."""


@dataclass(frozen=True)
class View:
    """The attention of a kind: its weights and their tokens or words, those of a window."""

    kind: Kind
    weights: Array
    """[N H Q K]."""
    queries: list[str]
    keys: list[str]
    query_axis: str
    key_axis: str
    notes: list[str]
    """Sentences about tokens that are not drawn."""


def view(inspection: Record, kind: Kind, words: bool = False, window: Window | None = None) -> View:
    """The attention of a kind, with what its rows and columns are."""
    unit = "word" if words else "token"
    inspection = by_words(inspection) if words else inspection
    query_tokens = inspection.source if kind == "encoder" else inspection.target
    key_tokens = inspection.decoder_inputs if kind == "decoder" else inspection.source
    query_side, key_side = (
        "source" if kind == "encoder" else "target",
        "target" if kind == "decoder" else "source",
    )
    queries, query_note = tokens_in(query_tokens, query_side, window, unit)
    keys, key_note = tokens_in(key_tokens, key_side, window, unit)
    rows, columns = in_window(len(query_tokens), window), in_window(len(key_tokens), window)
    predicts = "positions that predict" if words else "position that predicts"
    return View(
        kind,
        inspection.attention.of(kind)[:, :, rows, columns],
        queries,
        keys,
        f"query: source {unit}" if kind == "encoder" else f"query: the {predicts} this target {unit}",
        f"key: target {unit} so far" if kind == "decoder" else f"key: source {unit}",
        [note for note in dict.fromkeys([query_note, key_note]) if note],
    )


def in_window(tokens: int, window: Window | None) -> slice:
    """The places of so many tokens that are drawn: those of the window, or the first 60.

    A side that ends before the window shows as many of its last tokens. Raises `DragomanError` if the
    window's numbers are not in order, from 1.
    """
    first, last = (1, MAX_TOKENS) if window is None else window
    if not 1 <= first <= last:
        raise DragomanError(
            f"The window is from {first} to {last}; give the numbers of the first and the last token that "
            "are drawn, counted from 1."
        )
    stop = min(last, tokens)
    return slice(max(0, stop - (last - first + 1)), stop)


def tokens_in(
    tokens: Sequence[str], side: str, window: Window | None = None, unit: str = "token"
) -> tuple[list[str], str]:
    """The labels of the tokens that are drawn, and a sentence if there are more."""
    drawn = in_window(len(tokens), window)
    labels = [visible(token) for token in tokens[drawn]]
    note = f"Only {side} {unit}s {drawn.start + 1} to {drawn.stop} of {len(tokens)} are drawn."
    return labels, note if len(labels) < len(tokens) else ""
