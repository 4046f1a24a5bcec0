"""Paths between tokens: a recurrent layer's, self-attention's, and those of decoding (section 4).

This module imports no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.inspection.views.drawing import Drawing, visible
from dragoman.inspection.views.layout import finished
from dragoman.system.wording import counted
from dragoman_paper.figures.shapes import arrow

Edge = tuple[int, int]
STEP, HEIGHT, LEFT, NODE = 92.0, 84.0, 120.0, 11.0
TOKENS = ("x₁", "x₂", "x₃", "x₄", "x₅")
MOST = 10


@dataclass(frozen=True)
class Layer:
    """Which position's output is computed from which other's: edges (from, to)."""

    title: str
    states: tuple[Edge, ...]
    """From an output to another output of the same layer: these have to be computed one after the other."""
    reads: tuple[Edge, ...]
    """From an input to an output: all of these can be computed at once."""


def recurrent_layer(tokens: int) -> Layer:
    """Each state is computed from its token and from the state before it."""
    return Layer(
        "Recurrent layer",
        tuple((place, place + 1) for place in range(tokens - 1)),
        tuple((place, place) for place in range(tokens)),
    )


def self_attention_layer(tokens: int) -> Layer:
    """Each output is computed from all tokens."""
    places = range(tokens)
    return Layer("Self-attention layer", (), tuple((token, output) for token in places for output in places))


def longest_path(layer: Layer, tokens: int) -> int:
    """The most steps from position to position on a shortest path from the first token to an output.

    As in the measured Table 1, the step from a token to the output of its own position does not count.
    """
    distance = {target: int(target != source) for source, target in layer.reads if source == 0}
    reached = list(distance)
    for place in reached:
        for source, target in layer.states:
            if source == place and target not in distance:
                distance[target] = distance[place] + 1
                reached.append(target)
    assert len(distance) == tokens
    return max(distance.values())


def recurrence_paths(tokens: Sequence[str]) -> str:
    """Both layers with the path from the first position to the last, and the two kinds of feedback."""
    labels = [visible(token) for token in tokens[:MOST]]
    drawing = Drawing(
        "recurrence-paths",
        "Paths between tokens",
        "Arrows show what an output is computed from. The thick orange path goes from the first token to "
        "the last output; its steps from one position to another are counted.",
    )
    for layer in (recurrent_layer(len(labels)), self_attention_layer(len(labels))):
        draw_layer(drawing, layer, labels)
    draw_feedback(drawing, len(labels))
    notes = [
        "The length of a path is the number of its steps from one position to another: n − 1 for n tokens in "
        "the recurrent layer, and 1 in self-attention.",
        "Recurrence is the path along the states. It exists in training too, so output t has to wait for "
        "output t − 1.",
        "The dashed path, from a prediction to the next input, exists only when a model translates. In "
        "training all inputs are known, and a Transformer computes all positions at once. Such decoding is "
        "autoregressive; it is not a recurrence.",
        *[f"Only the first {MOST} of {len(tokens)} tokens are drawn."] * (len(tokens) > MOST),
    ]
    return finished(drawing, notes)


def draw_layer(drawing: Drawing, layer: Layer, tokens: Sequence[str]) -> None:
    """A layer below what is drawn: tokens at the bottom, outputs above them."""
    count, top = len(tokens), drawing.height + 78
    length = longest_path(layer, count)
    low, last = top + HEIGHT, count - 1
    title = f"{layer.title}: from the first position to the last in {counted(length, 'step')}"
    drawing.text(16, top - 40, title, 13, bold=True)
    drawing.text(LEFT - 34, top + 4, "outputs", css="fill-faint", anchor="end")
    drawing.text(LEFT - 34, low + 4, "tokens", css="fill-faint", anchor="end")
    best = {(0, 0)} if layer.states else {(0, last)}
    for edge in sorted(layer.reads, key=lambda edge: edge in best):
        thick = edge in best
        ends = [(place_x(edge[0]), low - NODE), (place_x(edge[1]), top + NODE + 1)]
        arrow(drawing, ends, "best" if thick else "line", 3.0 if thick else 1.0)
    for previous, current in layer.states:
        arrow(drawing, [(place_x(previous) + NODE, top), (place_x(current) - NODE - 1, top)], "best", 3.0)
    for place, token in enumerate(tokens):
        for y in (top, low):
            drawing.rectangle(
                place_x(place) - NODE, y - NODE, 2 * NODE, 2 * NODE, "fill-box stroke-ink", radius=NODE
            )
        drawing.label(place_x(place), low + 28, token, 11, anchor="middle")


def draw_feedback(drawing: Drawing, count: int) -> None:
    """Decoding: the prediction of each step is the input of the next."""
    top = drawing.height + 78
    low = top + HEIGHT
    drawing.text(16, top - 40, "Decoding with either layer: a prediction is the next input", 13, bold=True)
    drawing.text(LEFT - 34, top + 4, "predictions", css="fill-faint", anchor="end")
    drawing.text(LEFT - 34, low + 4, "inputs", css="fill-faint", anchor="end")
    for place in range(count):
        arrow(drawing, [(place_x(place), low - NODE), (place_x(place), top + NODE + 1)], "line")
        if place + 1 < count:
            x1, x2 = place_x(place), place_x(place + 1)
            data = f"M{x1 + NODE:.1f} {top:.1f}C{x1 + 46:.1f} {top:.1f} {x2 - 46:.1f} {low:.1f} "
            drawing.path(f"{data}{x2 - NODE - 2:.1f} {low:.1f}", "curve stroke-self", stroke=2.5, dashed=True)
            drawing.path(f"M{x2 - NODE:.1f} {low:.1f}l-9 -4v8z", "fill-self")
        for y in (top, low):
            drawing.rectangle(
                place_x(place) - NODE, y - NODE, 2 * NODE, 2 * NODE, "fill-box stroke-ink", radius=NODE
            )
        drawing.text(place_x(place), low + 28, f"step {place + 1}", 11, "fill-faint", "middle")


def place_x(place: int) -> float:
    """The x of a position."""
    return LEFT + place * STEP
