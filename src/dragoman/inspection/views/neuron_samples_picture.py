"""The picture of where neurons are most active: a line for each token, with the tokens around it."""

import numpy as np

from dragoman.inspection.analyse.neuron_samples import (
    NeuronSample,
    NeuronSamples,
    SampledLayer,
    SampledNeuron,
)
from dragoman.inspection.record.neurons import SIDES
from dragoman.inspection.views.drawing import Drawing, decimal, diverging, visible, widest
from dragoman.inspection.views.layout import finished
from dragoman.inspection.views.neurons_picture import NAMES
from dragoman.system.wording import counted

HEIGHT = 22.0  # of a cell, in pixels
AROUND = 300.0  # on each side of the strongest token, for the tokens around it
CENTRE = 150.0 + AROUND  # where the cell of the strongest token begins


def neuron_samples_picture(samples: NeuronSamples) -> str:
    """Each neuron with its share of tokens, greatest and mean activation, and its strongest tokens."""
    drawing = Drawing(
        "neuron-samples",
        f"Where neurons are most active, over {counted(samples.lines, 'line')} ({samples.activation})",
        "For hidden units of the feed-forward sub-layers, the tokens with the greatest absolute activation, "
        "each with the tokens around it.",
    )
    for side in SIDES:
        layers = [layer for layer in samples.layers if layer.side == side]
        if layers:
            heading, what = NAMES[side]
            total = f"{samples.tokens[side]:,} {what}"
            drawing.text(16, drawing.height + 30, f"{heading}: {total}", 13, bold=True)
        for layer in layers:
            for neuron in layer.neurons:
                draw_neuron(drawing, layer, neuron)
    drawn = [sample for layer in samples.layers for neuron in layer.neurons for sample in neuron.samples]
    negative = any(float(sample.activations.min()) < 0 for sample in drawn)
    stops = [*([(-1.0, "−1")] if negative else []), (0.0, "0"), (1.0, "1")]
    drawing.legend(
        16,
        drawing.height + 22,
        "activation, as a share of the neuron's greatest absolute activation",
        diverging,
        stops,
    )
    about = (
        "Each row is a token of the file, in a frame, with the tokens around it. On the left are its "
        "activation and the number of its line. Colours compare the tokens of a neuron. A neuron is active "
        "where its activation is greater than 0."
    )
    decoder = "In the decoder, the activation is that of the position that predicts the token."
    return finished(drawing, [about, decoder] if "decoder" in samples.tokens else [about])


def draw_neuron(drawing: Drawing, layer: SampledLayer, neuron: SampledNeuron) -> None:
    """A neuron's numbers, and a line for each of its samples."""
    place = neuron.neuron - 1
    y = drawing.height + 30
    drawing.text(16, y, f"Layer {layer.layer}, neuron {neuron.neuron}", 12, bold=True)
    share, greatest, mean = (float(values[place]) for values in (layer.active, layer.greatest, layer.mean))
    numbers = f"active at {share:.1%} of tokens; greatest {decimal(greatest)}, mean {decimal(mean)}"
    drawing.text(190, y, numbers, 12, "fill-faint")
    if not neuron.samples:
        drawing.text(16, y + 20, "Its activation is 0 at all tokens.", 12, "fill-faint")
    most = max((float(np.abs(sample.activations).max()) for sample in neuron.samples), default=1.0)
    for row, sample in enumerate(neuron.samples):
        draw_sample(drawing, sample, y + 10 + row * (HEIGHT + 2), most)


def draw_sample(drawing: Drawing, sample: NeuronSample, y: float, most: float) -> None:
    """The token at the same place in all lines, and as many tokens around it as there is room for."""
    place = sample.token - 1
    drawing.text(62, y + 15, decimal(float(sample.activations[place])), 11, "fill-ink", "end")
    drawing.text(76, y + 15, f"line {sample.line:,}", 10.5, "fill-faint")
    labels = [visible(token) for token in sample.tokens]
    widths = [cell_width(label) for label in labels]
    x, first = CENTRE, place
    while first > 0 and x - widths[first - 1] >= CENTRE - AROUND:
        first -= 1
        x -= widths[first]
    if first > 0:
        drawing.text(x - 4, y + 15, "…", 11, "fill-faint", "end")
    end = CENTRE + widths[place] + AROUND
    for column in range(first, len(labels)):
        if x + widths[column] > end:
            drawing.text(x + 4, y + 15, "…", 11, "fill-faint")
            break
        value = float(sample.activations[column])
        draw_token(drawing, x, y, widths[column], labels[column], value, most)
        x += widths[column]
    drawing.rectangle(CENTRE, y, widths[place], HEIGHT, "curve stroke-best", stroke=2)


def cell_width(label: str) -> float:
    """The width of a token's cell. Capitals are wider than the mean of letters."""
    return max(14.0, widest([label], 11.5) + 10 + 1.6 * sum(map(str.isupper, label)))


def draw_token(
    drawing: Drawing, x: float, y: float, width: float, label: str, value: float, most: float
) -> None:
    """A token with the shade of its activation."""
    shade = diverging(value / most)
    with drawing.group(title=f"{label}\n{value:.4f}"):
        drawing.cell(x, y, width, HEIGHT, shade)
        drawing.label(x + width / 2, y + 15, label, 11.5, shade.label, "middle")
