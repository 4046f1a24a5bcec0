"""Pictures of neurons, the hidden units of the feed-forward sub-layers (section 3.3).

Shapes: L layers, P tokens of a side, F = d_ff.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.neurons import SIDES, Side, most_active, most_active_of_layer, sides_with
from dragoman.inspection.record.projected import Numbers
from dragoman.inspection.record.record import Record
from dragoman.inspection.views.drawing import Drawing, decimal, diverging, widest
from dragoman.inspection.views.labels import Window, in_window, tokens_in
from dragoman.inspection.views.layout import finished, label_axes, sentences
from dragoman.system.errors import DragomanError

NEURONS = 24  # of a layer that are drawn
HIGHEST = 5  # tokens of a neuron that are listed
WIDTH, HEIGHT = 38.0, 22.0  # of a cell, in pixels
MAX_WIDTH = 720.0  # of a line of tokens
NAMES: dict[Side, tuple[str, str]] = {
    "encoder": ("Encoder", "source tokens"),
    "decoder": ("Decoder", "positions that predict these target tokens"),
}


def neurons_picture(
    inspection: Record,
    kind: Kind | None,
    layer: int | None,
    neuron: int | None,
    window: Window | None,
) -> str:
    """The most active neuron of each token by layer, the most active neurons of a layer, or one neuron.

    `kind` is the side, by default both; `layer` and `neuron` are counted from 1. A side without such a layer
    or neuron is left out. Raises `DragomanError` if no side is left.
    """
    sides = sides_of(inspection, kind, layer, neuron)
    activation = inspection.model.activation
    drawing = Drawing(
        f"neurons-{layer or 'all'}-{neuron or 'all'}",
        f"{what_is_drawn(layer, neuron)} ({activation})",
        f"Activations of hidden units of the feed-forward sub-layers. {sentences(inspection)}",
    )
    layers = slice(None) if layer is None else slice(layer - 1, layer)
    neurons = slice(None) if neuron is None else slice(neuron - 1, neuron)
    drawn_activations = {}
    for side in sides:
        drawn = in_window(len(tokens_of(inspection, side)), window)
        drawn_activations[side] = neurons_of(inspection, side)[layers, drawn, neurons]  # [L P F]
    most = max(float(np.abs(activations).max(initial=0)) for activations in drawn_activations.values()) or 1.0
    notes = []
    for side in sides:
        name = "source" if side == "encoder" else "target"
        labels, note = tokens_in(tokens_of(inspection, side), name, window)
        heading, what = NAMES[side]
        drawing.text(16, drawing.height + 28, f"{heading}: {what}", 13, bold=True)
        if layer is None:
            draw_layers(drawing, drawn_activations[side], labels, most)
        elif neuron is None:
            draw_neurons(drawing, drawn_activations[side][0], labels, most)
        else:
            draw_neuron(drawing, drawn_activations[side][0, :, 0], labels, most)
        notes.append(note)
    negative = any(float(activations.min(initial=0)) < 0 for activations in drawn_activations.values())
    lower = (-1.0, f"−{most:.2f}"), (0.0, "0")
    ticks = [*(lower if negative else lower[1:]), (1.0, f"{most:.2f}")]
    drawing.legend(16, drawing.height + 22, "activation (no unit)", diverging, ticks)
    about = (
        "An activation is one of the features f(x W₁ + b₁) in FFN(x) = f(x W₁ + b₁) W₂ + b₂; f is "
        f"{activation}. The most active neuron has the greatest absolute activation."
    )
    return finished(drawing, [about, *notes])


def what_is_drawn(layer: int | None, neuron: int | None) -> str:
    """The picture's title."""
    if layer is None:
        return "Most active neuron of each token"
    return f"Most active neurons of layer {layer}" if neuron is None else f"Neuron {neuron} of layer {layer}"


def sides_of(inspection: Record, kind: Kind | None, layer: int | None, neuron: int | None) -> list[Side]:
    """The sides that have this layer and this neuron. Raises `DragomanError` as `neurons_picture`."""
    shapes = {side: neurons_of(inspection, side).shape for side in SIDES}
    return sides_with({side: (shape[0], shape[2]) for side, shape in shapes.items()}, kind, layer, neuron)


def neurons_of(inspection: Record, side: Side) -> Numbers:
    """The activations of a side. Raises `DragomanError` if the model has none."""
    if inspection.neurons is None:
        raise DragomanError("This inspection has no activations of neurons; inspect the sentence again.")
    return inspection.neurons.of(side)


def tokens_of(inspection: Record, side: Side) -> tuple[str, ...]:
    """The tokens at which a side's activations are."""
    return inspection.source if side == "encoder" else inspection.target


def draw_layers(drawing: Drawing, activations: Numbers, tokens: Sequence[str], most: float) -> None:
    """A row for each token and a column for each layer of [L P F]: the most active neuron."""
    units = most_active(activations, 1)[..., 0]  # [L P]
    left, top, wide = 28 + widest(tokens), drawing.height + 42, 118.0
    for layer in range(len(units)):
        drawing.text(left + (layer + 0.5) * wide, top - 8, f"layer {layer + 1}", 11, "fill-faint", "middle")
    for row, token in enumerate(tokens):
        y = top + row * HEIGHT
        drawing.label(left - 10, y + 15, token, anchor="end")
        for layer, unit in enumerate(units[:, row].tolist()):
            x, value = left + layer * wide, float(activations[layer, row, unit])
            title = f"layer {layer + 1}\n{token}\nneuron {unit + 1}: {value:.4f}"
            with drawing.group(title=title):
                shade = draw_cell(drawing, x, y, wide, value / most)
                name = f"neuron {unit + 1}" if value else "all are 0"
                drawing.text(x + 6, y + 15, name, 10.5, shade if value else "fill-faint")
                if value:
                    drawing.text(x + wide - 6, y + 15, decimal(value), 10.5, shade, "end")


def draw_neurons(drawing: Drawing, activations: Numbers, tokens: Sequence[str], most: float) -> None:
    """A row for each of the most active neurons of [P F], a column for each token."""
    (units,) = most_active_of_layer(activations[None], NEURONS).tolist()
    left, top = 96.0, drawing.height + 24 + 0.87 * widest(tokens)
    label_axes(drawing, [], tokens, left, top, WIDTH)
    for row, unit in enumerate(units):
        y = top + row * HEIGHT
        drawing.text(left - 8, y + 15, f"neuron {unit + 1}", 11, "fill-faint", "end")
        for column, value in enumerate(activations[:, unit].tolist()):
            x = left + column * WIDTH
            with drawing.group(title=f"neuron {unit + 1}\n{tokens[column]}\n{value:.4f}"):
                shade = draw_cell(drawing, x, y, WIDTH, value / most)
                words, shade = (decimal(value), shade) if value else ("0", "fill-faint")
                drawing.text(x + WIDTH / 2, y + 15, words, 10.5, shade, "middle")


def draw_neuron(drawing: Drawing, activations: Numbers, tokens: Sequence[str], most: float) -> None:
    """The tokens in lines, coloured by an activation [P], and the tokens with the highest ones."""
    x, y = 16.0, drawing.height + 14
    for token, value in zip(tokens, activations.tolist(), strict=True):
        wide = max(WIDTH, widest([token]) + 14)
        if x + wide > MAX_WIDTH:
            x, y = 16.0, y + 46
        with drawing.group(title=f"{token}\n{value:.4f}"):
            label = draw_cell(drawing, x, y, wide, value / most)
            drawing.label(x + wide / 2, y + 15, token, 12, label, "middle")
            drawing.text(x + wide / 2, y + 36, decimal(value), 10.5, "fill-faint", "middle")
        x += wide + 4
    places = [place for place in most_active(activations, HIGHEST).tolist() if activations[place]]
    words = ", ".join(f"{tokens[place]} {decimal(float(activations[place]))}" for place in places)
    words = f"most active at: {words}" if words else "0 at all tokens that are drawn"
    drawing.paragraph(16, drawing.height + 24, words, 96)


def draw_cell(drawing: Drawing, x: float, y: float, width: float, share: float) -> str:
    """A cell with the shade of a share. Returns the class of a text on it."""
    shade = diverging(share)
    drawing.cell(x, y, width, HEIGHT, shade)
    return shade.label
