"""The paper's Figures 3 to 5 from a model's attention, and two heads compared.

The paper draws encoder self-attention; a `Choice` may ask for another kind. Shapes: L layers, H heads, Q
queries, K keys; in self-attention Q = K. Layers, heads and tokens are counted from 1 by users and from 0
in this file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dragoman.inspection.analyse.statistics import Table, statistics
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.record import Array
from dragoman.inspection.views.attention_pictures import KIND_NAMES, WEIGHT_TITLE
from dragoman.inspection.views.drawing import Drawing, sequential, widest
from dragoman.inspection.views.labels import view
from dragoman.inspection.views.layout import SHARE_TICKS, draw_levels, finished, label_axes, sentences
from dragoman.system.errors import DragomanError
from dragoman_paper.figures.choice import Choice

COLUMN, GAP, BAR = 30.0, 150.0, 7.0  # from token to token, from queries to keys, height of a head's mark
HEAD_COLOURS = tuple(f"head-{number}" for number in range(1, 9))
FEWEST = 0.01  # weights below it have no line


@dataclass(frozen=True)
class LayerWeights:
    """Attention of a layer, with at most 60 tokens of each side."""

    name: str
    """Its kind and its number: `encoder self-attention, layer 5`."""
    layer: int
    weights: Array
    """[H Q K]."""
    queries: list[str]
    keys: list[str]
    axes: str
    """What queries and keys are, in a sentence."""
    notes: list[str]


def layer_weights(inspection: Inspection, choice: Choice) -> LayerWeights:
    """The layer that is asked for, or the last but one, as in the paper's figures (5 of 6).

    Raises `DragomanError` if there is no such layer.
    """
    attention_view = view(inspection, choice.kind)
    layer = layer_number(choice.layer, len(attention_view.weights))
    name = KIND_NAMES[choice.kind]
    return LayerWeights(
        f"{name[0].lower()}{name[1:]}, layer {layer + 1}",
        layer,
        attention_view.weights[layer],
        attention_view.queries,
        attention_view.keys,
        f"Q{attention_view.query_axis[1:]}; {attention_view.key_axis}.",
        attention_view.notes,
    )


def layer_number(requested: int | None, layers: int) -> int:
    """A layer counted from 0; the last but one if none is asked for. Raises for one that does not exist."""
    if requested is None:
        return max(layers - 2, 0)
    if not 1 <= requested <= layers:
        raise DragomanError(f"There is no layer {requested}; this model has {layers}, counted from 1.")
    return requested - 1


def head_numbers(requested: Sequence[int], heads: int) -> list[int]:
    """Heads counted from 0; all if none are asked for. Raises for one that does not exist."""
    for head in requested:
        if not 1 <= head <= heads:
            raise DragomanError(f"There is no head {head}; this model has {heads}, counted from 1.")
    return [head - 1 for head in requested] or list(range(heads))


def one_head(requested: Sequence[int], heads: int) -> int:
    """The head that is asked for, or the first. Raises for more than one and for one that does not exist."""
    if len(requested) > 1:
        raise DragomanError(f"This figure shows one head; --heads has {len(requested)}.")
    return head_numbers(requested, heads)[0]


def two_heads(weights: Array, requested: Sequence[int]) -> tuple[int, int]:
    """The two heads of [H Q K] that are asked for, or the two whose weights differ most.

    Raises `DragomanError` for another count, for a head that does not exist, and for a model with one head.
    """
    heads = len(weights)
    if heads < 2:
        raise DragomanError("This figure compares two heads, and this model has one.")
    numbers = head_numbers(requested, heads)
    if requested:
        if len(numbers) != 2 or numbers[0] == numbers[1]:
            raise DragomanError("This figure compares two heads: --heads 1 2.")
        return numbers[0], numbers[1]
    pairs = [(first, second) for first in range(heads) for second in range(first)]
    first, second = max(pairs, key=lambda pair: difference(weights[pair[0]], weights[pair[1]]))
    return min(first, second), max(first, second)


def difference(first: Array, second: Array) -> float:
    """The share of attention [Q K] that two heads give to different keys, a mean over queries."""
    return float(np.abs(first - second).sum(-1).mean() / 2)


def dependencies(weights: Array) -> npt.NDArray[np.float32]:
    """How long and strong a dependency each weight of [H Q K] is.

    It is the weight beyond the key's mean weight over all queries, times the distance in tokens. Many models
    attend to the first token or END from everywhere; that is no dependency of one query.
    """
    queries, keys = np.indices(weights.shape[1:])
    return (weights - weights.mean(1, keepdims=True)) * np.abs(queries - keys)


def are_words(tokens: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which tokens, but the last, have a letter or digit; all if none has."""
    words = np.array([any(map(str.isalnum, token)) for token in tokens])
    words[-1] = False
    return words | ~words.any()


def query_number(attention: LayerWeights, requested: str | None, heads: Sequence[int]) -> int:
    """The query: a token's number from 1 or its text; without one, the word with the longest dependency in
    one of these heads.

    Raises `DragomanError` if the sentence has no such token.
    """
    if requested is None:
        pairs = are_words(attention.queries)[:, None] & are_words(attention.keys)
        most = np.where(pairs, dependencies(attention.weights[list(heads)]), -np.inf).max((0, 2))
        return int(most.argmax())
    count = len(attention.queries)
    if requested.isascii() and requested.isdigit() and 1 <= int(requested) <= count:
        return int(requested) - 1
    for place, token in enumerate(attention.queries):
        if requested in (token, token.lstrip("▁")):
            return place
    numbered = ", ".join(f"{place} {token}" for place, token in enumerate(attention.queries, 1))
    raise DragomanError(f"There is no query {requested!r}. The queries are: {numbered}.")


# ---- lines between two rows of tokens, as in the paper


def draw_rows(drawing: Drawing, attention: LayerWeights, thick: int | None) -> tuple[float, float, float]:
    """Queries above and keys below, upright. Returns the x of the first, and the y of both ends of lines."""
    left = 40.0
    high = drawing.height + 46 + min(widest(attention.queries), 160.0)
    low = high + GAP
    drawing.text(16, drawing.height + 24, "queries above, keys below", 11, "fill-faint")
    for place, token in enumerate(attention.queries):
        drawing.label(left + place * COLUMN + 4, high - 8, token, turn=-90, bold=place == thick)
    for place, token in enumerate(attention.keys):
        drawing.label(left + place * COLUMN + 4, low + 10, token, anchor="end", turn=-90)
    columns = max(len(attention.queries), len(attention.keys))
    drawing.reach(left + columns * COLUMN, low + min(widest(attention.keys), 160.0) + 14)
    return left, high, low


def draw_lines(
    drawing: Drawing,
    weights: Array,
    queries: Sequence[int],
    colour: str,
    place: tuple[float, float, float],
    lane: tuple[float, float] = (0.0, 4.0),
) -> None:
    """Lines from queries to keys of [Q K]; opacity is the weight, of a single query its square root.

    `lane` is how far they are to the right of the tokens' middle, and the greatest width of a line.
    """
    left, high, low = place
    left += lane[0]
    with drawing.group("weights"):
        for query in queries:
            for key, weight in enumerate(weights[query].tolist()):
                if weight >= FEWEST:
                    ends = [(left + query * COLUMN, high), (left + key * COLUMN, low)]
                    opacity = clear(weight) if len(queries) == 1 else min(weight, 1.0)
                    title = f"query {query + 1}, key {key + 1}, weight {weight:.3f}"
                    stroke = min(1 + 3 * weight, lane[1])
                    drawing.polyline(ends, f"stroke-{colour}", title, opacity=opacity, stroke=stroke)


def lanes(heads: int) -> list[tuple[float, float]]:
    """For the lines of each head its distance from the tokens' middle, and their greatest width.

    Lines of two heads between the same tokens are then beside each other.
    """
    width = min(4.0, 0.8 * COLUMN / heads)
    return [((head - (heads - 1) / 2) * (width + 0.2), width) for head in range(heads)]


def head_key(drawing: Drawing, heads: Sequence[int], colours: Sequence[str]) -> None:
    """The colours of heads."""
    y = drawing.height + 20
    for row, (head, colour) in enumerate(zip(heads, colours, strict=True)):
        x = 16 + 90 * (row % 6)
        top = y + 22 * (row // 6)
        drawing.rectangle(x, top, 14, 14, f"fill-{colour}")
        drawing.text(x + 20, top + 12, f"head {head + 1}", 11, "fill-faint")


def figure_3(inspection: Inspection, choice: Choice) -> str:
    """One query's attention in the heads of a layer: lines, and a mark for each head at each key."""
    attention = layer_weights(inspection, choice)
    heads = head_numbers(choice.heads, len(attention.weights))
    query = query_number(attention, choice.query, heads)
    colours = [HEAD_COLOURS[head % len(HEAD_COLOURS)] for head in heads]
    token = attention.queries[query]
    drawing = Drawing(
        "figure-3",
        f"{token} in {f'head {heads[0] + 1}' if len(heads) == 1 else f'{len(heads)} heads'}: "
        f"{attention.name}",
        f"Lines go from the query {token} to its keys; opacity grows with the weight. "
        f"{sentences(inspection)}",
    )
    place = draw_rows(drawing, attention, query)
    for head, colour, lane in zip(heads, colours, lanes(len(heads)), strict=True):
        draw_lines(drawing, attention.weights[head], [query], colour, place, lane)
    top = drawing.height + 14
    drawing.text(16, top + 4, "weight of each head, by key", 11, "fill-faint")
    for row, (head, colour) in enumerate(zip(heads, colours, strict=True)):
        y = top + 12 + row * (BAR + 2)
        for key, weight in enumerate(attention.weights[head, query].tolist()):
            title = f"head {head + 1}\nkey: {attention.keys[key]}\nweight: {weight:.3f}"
            x = place[0] + key * COLUMN - COLUMN * 0.42
            drawing.rectangle(x, y, COLUMN * 0.84, BAR, f"fill-{colour}", title, opacity=clear(weight))
    head_key(drawing, heads, colours)
    many = "Colours repeat: the order of the marks tells heads apart."
    notes = [
        unit("the square root of"),
        *[many] * (len(heads) > len(HEAD_COLOURS)),
        *why_this_query(choice),
    ]
    return finished(drawing, [*notes, attention.axes, *attention.notes])


def figure_4(inspection: Inspection, choice: Choice) -> str:
    """All attention of a head above, one query's in two heads below."""
    attention = layer_weights(inspection, choice)
    heads = two_heads(attention.weights, choice.heads)
    query = query_number(attention, choice.query, heads)
    token = attention.queries[query]
    drawing = Drawing(
        "figure-4",
        f"Heads {heads[0] + 1} and {heads[1] + 1}: {attention.name}",
        f"Above: all attention of head {heads[0] + 1}. Below: that of {token} in both heads. "
        f"{sentences(inspection)}",
    )
    drawing.text(16, drawing.height + 28, f"Head {heads[0] + 1}, all queries", 13, bold=True)
    place = draw_rows(drawing, attention, None)
    draw_lines(drawing, attention.weights[heads[0]], range(len(attention.queries)), HEAD_COLOURS[0], place)
    drawing.text(16, drawing.height + 34, f"The query {token} in both heads", 13, bold=True)
    place = draw_rows(drawing, attention, query)
    for head, colour, lane in zip(heads, HEAD_COLOURS, lanes(2), strict=False):
        draw_lines(drawing, attention.weights[head], [query], colour, place, lane)
    head_key(drawing, heads, HEAD_COLOURS[:2])
    notes = [unit("(below: the square root of)"), *why_these(choice), *why_this_query(choice)]
    return finished(drawing, [*notes, attention.axes, *attention.notes])


def figure_5(inspection: Inspection, choice: Choice) -> str:
    """All attention of two heads, one below the other."""
    attention = layer_weights(inspection, choice)
    heads = two_heads(attention.weights, choice.heads)
    drawing = Drawing(
        "figure-5",
        f"Heads {heads[0] + 1} and {heads[1] + 1}: {attention.name}",
        f"All attention of two heads. {sentences(inspection)}",
    )
    for head, colour in zip(heads, HEAD_COLOURS, strict=False):
        drawing.text(16, drawing.height + 30, f"Head {head + 1}", 13, bold=True)
        place = draw_rows(drawing, attention, None)
        draw_lines(drawing, attention.weights[head], range(len(attention.queries)), colour, place)
    notes = [unit("equal to"), difference_note(attention, heads), *why_these(choice), attention.axes]
    return finished(drawing, [*notes, *attention.notes])


def unit(opacity: str) -> str:
    """What the look of a line means."""
    return f"Opacity is {opacity} the {WEIGHT_TITLE}. Weights below {FEWEST} have no line."


def why_these(choice: Choice) -> list[str]:
    """Why these heads are drawn, if the user has not chosen them."""
    return ["These two heads of the layer differ most; --heads chooses others."] * (not choice.heads)


def why_this_query(choice: Choice) -> list[str]:
    """Why this query is drawn, if the user has not chosen it."""
    chosen = (
        "The query is the word with the longest strong dependency in a head: weight beyond the key's mean "
        "over queries, times the distance. --query chooses another."
    )
    return [chosen] * (choice.query is None)


def difference_note(attention: LayerWeights, heads: tuple[int, int]) -> str:
    """How much two heads differ."""
    share = difference(attention.weights[heads[0]], attention.weights[heads[1]])
    return f"The two heads give {share:.0%} of their attention to different keys (mean over queries)."


def clear(weight: float) -> float:
    """The opacity of a weight: its square root, so that small weights are visible."""
    return math.sqrt(min(max(weight, 0.0), 1.0))


# ---- two heads compared


FACTS = {
    "entropy": ("entropy, nats", ".2f"),
    "distance": ("distance to the key, tokens", ".2f"),
    "previous": ("share on the position before", ".0%"),
    "same": ("share on the same position", ".0%"),
    "next": ("share on the position after", ".0%"),
    "edge": ("share on END, or on START", ".0%"),
}
"""Of the `statistics` of a head those that are drawn, with their words and their form."""


def head_comparison(inspection: Inspection, choice: Choice) -> str:
    """Two heads as heat maps side by side, with their facts below."""
    attention = layer_weights(inspection, choice)
    heads = two_heads(attention.weights, choice.heads)
    rows, columns = len(attention.queries), len(attention.keys)
    cell = 22.0 if max(rows, columns) <= 20 else 12.0
    left, top = 44 + widest(attention.queries), 84 + 0.87 * widest(attention.keys)
    right = left + cell * columns + 0.6 * widest(attention.keys) + 40
    drawing = Drawing(
        "head-comparison",
        f"Two heads: {attention.name}",
        f"Rows are queries and columns are keys. {sentences(inspection)}",
    )
    for x, head in ((left, heads[0]), (right, heads[1])):
        drawing.text(x, 56, f"Head {head + 1}", 13, bold=True)
        label_axes(drawing, attention.queries if x == left else [], attention.keys, x, top, cell)
        drawing.rectangle(x, top, cell * columns, cell * rows, "fill-zero stroke-line")
        draw_levels(drawing, attention.weights[head], sequential, x, top, cell, cell)
    draw_facts(drawing, statistics(inspection)[choice.kind], attention.layer, heads)
    drawing.legend(16, drawing.height + 20, WEIGHT_TITLE, sequential, SHARE_TICKS)
    axes = "Rows are queries from top to bottom, columns are keys."
    return finished(
        drawing,
        [axes, attention.axes, difference_note(attention, heads), *why_these(choice), *attention.notes],
    )


def draw_facts(drawing: Drawing, tables: Mapping[str, Table], layer: int, heads: tuple[int, int]) -> None:
    """The facts of two heads below what is drawn, from tables [L H]."""
    y, columns = drawing.height + 30, (250, 340)
    drawing.text(16, y, "means over queries", css="fill-faint")
    for x, head in zip(columns, heads, strict=True):
        drawing.text(x, y, f"head {head + 1}", css="fill-faint")
    for row, (name, (words, form)) in enumerate(FACTS.items(), 1):
        drawing.text(16, y + 22 * row, words)
        for x, head in zip(columns, heads, strict=True):
            drawing.text(x, y + 22 * row, format(tables[name][layer, head], form))
