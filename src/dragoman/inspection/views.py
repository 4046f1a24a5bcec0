"""The pictures of an inspection by name. This module imports no torch."""

from typing import TYPE_CHECKING, Literal, get_args

from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.inspection.inspection import Inspection

Kind = Literal["encoder", "decoder", "cross"]
"""The three uses of attention (section 3.2.3)."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Method = Literal[
    "integrated-gradients",
    "gradient-input",
    "saliency",
    "occlusion",
    "sequential-integrated-gradients",
    "discretized-integrated-gradients",
    "gradient-shap",
    "deeplift",
    "lime",
    "reagent",
]
"""Ways to attribute a target token's log-probability to tokens (attribution.py)."""
METHODS: tuple[Method, ...] = get_args(Method)
DEFAULT_METHODS = METHODS[:4]
OF_TOKENS = frozenset[Method](("discretized-integrated-gradients", "gradient-shap", "reagent"))
"""Methods that put other tokens in the place of those of a sentence."""
UNSIGNED = frozenset[Method](("saliency", "reagent"))
"""Methods whose numbers are never negative."""
Picture = Literal[
    "beam",
    "encoder",
    "decoder",
    "cross",
    "alignment",
    "numbers",
    "statistics",
    "masks",
    "positions",
    "distances",
    "stream",
    "lens",
    "neurons",
    "model",
]


def draw(
    inspection: "Inspection",
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
    from dragoman.inspection import (
        alignment_picture,
        architecture,
        attention_pictures,
        convolutional_pictures,
        enriched_pictures,
        mask_picture,
        neurons_picture,
        numbers,
        position_pictures,
        recurrent_pictures,
        statistics_picture,
        stream_pictures,
        tree,
    )

    if view not in get_args(Picture):
        raise DragomanError(f"There is no view {view!r}; the views are {', '.join(get_args(Picture))}.")
    if window is not None:
        refuse_window(inspection, window)
    own: dict[str, Callable[[], str]] = {}  # of an architecture that is not the Transformer
    if inspection.model.architecture == "conv":
        convolutional_pictures.refuse_what_is_lacking(view)
        own = {"model": lambda: convolutional_pictures.architecture(inspection)}
    elif inspection.model.architecture.endswith("-enriched"):
        enriched_pictures.refuse_what_is_lacking(view)
    elif inspection.model.architecture != "transformer":
        recurrent_pictures.refuse_what_is_lacking(inspection, view)
        own = {
            "stream": lambda: recurrent_pictures.states(inspection, window),
            "model": lambda: recurrent_pictures.architecture(inspection),
        }
    if view in own:
        return own[view]()
    if view in ("encoder", "decoder", "cross"):
        if layer is None:
            return attention_pictures.attention_grid(inspection, view, words, window)
        draw_head = attention_pictures.attention_lines if lines else attention_pictures.attention_head
        return draw_head(inspection, view, layer, head, words, window)
    others: dict[Picture, Callable[[], str]] = {
        "beam": lambda: tree.beam_tree(inspection, window),
        "alignment": lambda: alignment_picture.alignment(inspection, window),
        "numbers": lambda: numbers.numbers(inspection, kind or "cross", layer, head, query, window),
        "statistics": lambda: statistics_picture.statistics_table(inspection, kind or "cross"),
        "masks": lambda: mask_picture.masks(inspection, window),
        "positions": lambda: position_pictures.positions(inspection, window),
        "distances": lambda: position_pictures.position_products(inspection, window),
        "stream": lambda: stream_pictures.residual_stream(inspection, window),
        "lens": lambda: stream_pictures.lens(inspection, window),
        "neurons": lambda: neurons_picture.neurons_picture(inspection, kind, layer, neuron, window),
        "model": lambda: architecture.architecture(inspection),
    }
    return others[view]()


def refuse_truncation(tokens: int, view: str) -> None:
    """Raise `DragomanError` if the search reads a part of the sentence, and the view is of the whole.

    `tokens` is the setting `truncate`.
    """
    if tokens:
        raise DragomanError(
            f"{view} is of the whole sentence, and with truncate {tokens} the search reads only a part of "
            "it; leave truncate out, or give a shorter sentence."
        )


def refuse_window(inspection: "Inspection", window: tuple[int, int]) -> None:
    """Raise `DragomanError` if the window begins after the last token of both sentences."""
    longest = max(len(inspection.source), len(inspection.target))
    if window[0] > longest:
        raise DragomanError(
            f"The window begins at token {window[0]}, and the sentence and its translation have at most "
            f"{longest} tokens; give a window of these."
        )
