"""The paper's Figure 1 for a model's settings: its layers, the shapes between them, their parameters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from dragoman.inspection.views.drawing import Anchor, Drawing
from dragoman.inspection.views.layout import finished
from dragoman.model.settings import ModelSettings
from dragoman.model.shapes.baseline_shapes import baseline_shapes
from dragoman.model.shapes.transformer_shapes import transformer_shapes

if TYPE_CHECKING:  # it imports torch
    from dragoman.inspection.record.record import Record

WIDTH, SIDE = 208, 20  # of a box, and from its edge to the frame of a layer
GAP, FRAME_GAP = 30, 50  # between boxes of a layer, and where the frame of a layer is between them
ENCODER_X, DECODER_X, TOP = 196, 524, 64
NORMS = {
    "post": "post-norm",
    "pre": "pre-norm",
    "batch": "batch normalisation",
    "none": "no normalisation",
}
NAMES = {
    "transformer": "Transformer",
    "lstm-enriched": "enriched LSTM",
    "gru-enriched": "enriched GRU",
    "conv-enriched": "enriched ConvS2S",
}


@dataclass(frozen=True)
class Box:
    """A step of the computation."""

    name: str
    details: tuple[str, ...]
    output: str
    """The shape of what it gives."""
    colour: str
    adds_input_of: int = 0
    """A residual sum: how many boxes below is the one whose input is added; 0 if this is none."""

    @property
    def height(self) -> float:
        """In pixels."""
        return 26 + 15 * len(self.details)


@dataclass(frozen=True)
class LayerColumn:
    """The boxes of a side from bottom to top, and which of them are one layer."""

    boxes: list[Box]
    first: int
    last: int
    """The numbers of the layer's first and last box."""
    layers: int

    @property
    def height(self) -> float:
        """In pixels, the gaps between the boxes included."""
        return sum(box.height + self.gap(number) for number, box in enumerate(self.boxes))

    def gap(self, number: int) -> float:
        """The space below a box."""
        return FRAME_GAP if number in (self.first, self.last + 1) else GAP

    def tops(self, bottom: float) -> list[float]:
        """The top of each box of a column that begins at `bottom`."""
        heights = accumulate(box.height + self.gap(number) for number, box in enumerate(self.boxes))
        return [bottom - height for height in heights]


def architecture(inspection: "Record") -> str:
    """The paper's Figure 1 for this model, with the shapes of this call and numbers of parameters."""
    model = inspection.model
    lengths = (
        f"In this call S = {len(inspection.source)} source and T = {len(inspection.target)} target tokens; "
        f"d_model = {model.d_model}; V is the size of the target vocabulary."
    )
    embeddings = {module.name: module.parameters for module in inspection.modules}
    return architecture_of(model, embeddings, f"The {NAMES[model.architecture]} of this model", lengths)


def architecture_of(model: ModelSettings, embeddings: Mapping[str, int], title: str, lengths: str) -> str:
    """The paper's Figure 1 for these settings, with a note about lengths.

    `embeddings` are the numbers of parameters of `source_embedding` and `target_embedding`.
    """
    drawing = Drawing(
        "architecture",
        title,
        f"The paper's Figure 1: {model.encoder_layers} encoder layers on the left and {model.decoder_layers} "
        f"decoder layers on the right, each with {NORMS[model.norm]}.",
    )
    encoder, decoder = encoder_column(model, embeddings), decoder_column(model, embeddings)
    cross = next(number for number, box in enumerate(decoder.boxes) if box.name == "Multi-head attention")
    draw_architecture(drawing, encoder, decoder, cross)
    layers = (
        f"An encoder layer has {parameters(model, 'encoder.0'):,} parameters, a decoder layer "
        f"{parameters(model, 'decoder.0'):,}."
    )
    return finished(drawing, [lengths, layers])


def draw_architecture(
    drawing: Drawing, encoder: LayerColumn, decoder: LayerColumn, attention: int, shape: str = "[S, d_model]"
) -> None:
    """Draw the encoder on the left and the decoder on the right, from bottom to top.

    What the encoder gives, of this shape, goes to the decoder's box with the number `attention`.
    """
    bottom = TOP + max(encoder.height, decoder.height + GAP)
    left = draw_column(drawing, encoder, ENCODER_X, bottom, "source tokens", -1)
    right = draw_column(drawing, decoder, DECODER_X, bottom, "target tokens so far", 1)
    draw_arrow(drawing, DECODER_X, right[-1], right[-1] - GAP, decoder.boxes[-1].output, 1)
    draw_memory(drawing, left[-1], right[attention] + decoder.boxes[attention].height / 2, shape)


def encoder_column(model: ModelSettings, embeddings: Mapping[str, int]) -> LayerColumn:
    """Input embedding, positions, the layer, and with pre-norm a last normalisation."""
    start = input_boxes(model, embeddings, "source", "S")
    self_attention = own_box(model, "encoder", "S")
    layer = [
        *sublayer(model, self_attention, "S"),
        *sublayer(model, feed_forward_box(model, "encoder", "S"), "S"),
    ]
    last = len(start + layer) - 1
    return LayerColumn([*start, *layer, *last_norm(model, "S")], len(start), last, model.encoder_layers)


def decoder_column(model: ModelSettings, embeddings: Mapping[str, int]) -> LayerColumn:
    """Output embedding, positions, the layer, with pre-norm a last normalisation, logits and softmax."""
    start = input_boxes(model, embeddings, "target", "T")
    self_attention = own_box(model, "decoder", "T")
    cross = attention_box(model, "Multi-head attention", "decoder.0.cross_attention", "T")
    layer = [
        *sublayer(model, self_attention, "T"),
        *sublayer(model, cross, "T"),
        *sublayer(model, feed_forward_box(model, "decoder", "T"), "T"),
    ]
    matrix = "own matrix" if model.tied == "none" else "the target embedding's matrix"
    end = [
        Box("Linear", (matrix,), "[T, V]", "fill-box"),
        Box("Softmax", (), "[T, V] probabilities of the next token", "fill-box"),
    ]
    last = len(start + layer) - 1
    return LayerColumn([*start, *layer, *last_norm(model, "T"), *end], len(start), last, model.decoder_layers)


def input_boxes(model: ModelSettings, embeddings: Mapping[str, int], side: str, length: str) -> list[Box]:
    """Embedding and positions (sections 3.4 and 3.5)."""
    features, parameters = f"[{length}, d_model]", embeddings.get(f"{side}_embedding", 0)
    count = [f"{parameters:,} parameters"] * bool(parameters)
    if side == "source" and model.tied == "all":
        count = ["the target embedding's matrix"]
    details = ["times √d_model"] * model.scale_embeddings + count
    boxes = [Box(f"{side.capitalize()} embedding", tuple(details), features, "fill-box")]
    if model.concatenate_positions:
        boxes.append(
            Box("Concatenate positions", (model.positions, "mapped to d_model"), features, "fill-box")
        )
    elif model.positions != "none":
        boxes.append(Box("Add positions", (model.positions,), features, "fill-box"))
    return boxes


def sublayer(model: ModelSettings, box: Box, length: str) -> list[Box]:
    """A sub-layer with its residual sum and its normalisation, after the sum or before the sub-layer."""
    features, count = f"[{length}, d_model]", parameters(model, "encoder.0.feed_forward_residual.norm")
    weights = f"{count:,} parameters"
    if model.norm == "pre":
        total = Box("Add", (), features, "fill-box", adds_input_of=2)
        return [Box("Norm", (weights,), features, "fill-box"), box, *[total] * model.residual]
    norm = {"post": "norm", "batch": "batch norm", "none": ""}[model.norm]
    title = " and ".join(filter(None, ["add" if model.residual else "", norm])).capitalize()
    after = Box(title, (weights,) if norm else (), features, "fill-box", adds_input_of=int(model.residual))
    return [box, after] if title else [box]


def last_norm(model: ModelSettings, length: str) -> list[Box]:
    """The normalisation after all layers of a model with pre-norm."""
    box = Box("Norm", (f"{2 * model.d_model:,} parameters",), f"[{length}, d_model]", "fill-box")
    return [box] * (model.norm == "pre")


def own_box(model: ModelSettings, side: str, length: str) -> Box:
    """The first sub-layer: self-attention, or what an enriched model has in its place."""
    if model.architecture == "transformer":
        name = "Masked multi-head attention" if side == "decoder" else "Multi-head attention"
        return attention_box(model, name, f"{side}.0.self_attention", length)
    count = f"{parameters(model, f'{side}.0.token_mixer'):,} parameters"
    if model.architecture == "conv-enriched":
        kernel = f"kernel of {model.kernel_width}{', causal' if side == 'decoder' else ''}"
        details = [kernel, *["dilated"] * model.dilated, count]
        return Box("Convolution with GLU", tuple(details), f"[{length}, d_model]", "fill-zero")
    name = model.architecture.removesuffix("-enriched").upper()
    words = name if side == "decoder" else f"Bidirectional {name}"
    return Box(words, (count,), f"[{length}, d_model]", "fill-zero")


def attention_box(model: ModelSettings, name: str, weights: str, length: str) -> Box:
    """Multi-head attention (section 3.2.2)."""
    sizes = f"h = {model.heads}, d_k = {model.key_width}, d_v = {model.value_width}"
    details = [sizes, f"{parameters(model, weights):,} parameters"]
    if model.attention_score is not None:
        details.insert(1, f"{model.attention_score} scores")
    if model.neighbourhood is not None and weights.endswith("self_attention"):
        details.insert(1, f"neighbourhood of {model.neighbourhood}")
    return Box(name, tuple(details), f"[{length}, d_model]", "fill-zero")


def feed_forward_box(model: ModelSettings, side: str, length: str) -> Box:
    """The feed-forward network (section 3.3)."""
    width = (model.decoder_d_ff or model.d_ff) if side == "decoder" else model.d_ff
    sizes = f"d_ff = {width}, {model.activation}"
    details = sizes, f"{parameters(model, f'{side}.0.feed_forward'):,} parameters"
    return Box("Feed-forward", details, f"[{length}, d_model]", "fill-zero")


def parameters(model: ModelSettings, name: str) -> int:
    """Numbers in the weights of a part of a layer, from their shapes."""
    shapes = baseline_shapes(model, transformer_shapes(model, 0))
    return sum(math.prod(shape) for weight, shape in shapes.items() if weight.startswith(f"{name}."))


# ---- drawing


def draw_column(
    drawing: Drawing, column: LayerColumn, x: float, bottom: float, words: str, outside: int
) -> list[float]:
    """Draw a side about x; `outside` is −1 or 1, where residual lines run. Returns the top of each box."""
    tops = column.tops(bottom)
    draw_frame(drawing, column, tops, x, outside)
    drawing.text(x, bottom + 14, words, anchor="middle", css="fill-faint")
    y, shape = bottom, "[S]" if outside < 0 else "[T]"
    for number, (box, top) in enumerate(zip(column.boxes, tops, strict=True)):
        label = y - 9 if number == column.first else (y + top + box.height) / 2 + 6
        draw_arrow(drawing, x, y, top + box.height, shape, -outside, label)
        draw_step(drawing, box, x, top)
        if box.adds_input_of:
            start = number - box.adds_input_of
            joins = tops[start] + column.boxes[start].height + GAP / 2
            beside = SIDE * (0.5 + 0.2 * box.adds_input_of)  # a longer line runs outside of a shorter one
            draw_residual(drawing, x, joins, top + box.height / 2, outside, beside)
        y, shape = top, box.output
    return tops


def draw_step(drawing: Drawing, box: Box, x: float, top: float) -> None:
    """A box with its name and details."""
    drawing.rectangle(x - WIDTH / 2, top, WIDTH, box.height, f"{box.colour} stroke-line", radius=5)
    drawing.text(x, top + 17, box.name, 12, anchor="middle", bold=True)
    for line, detail in enumerate(box.details):
        drawing.text(x, top + 33 + 15 * line, detail, 11, "fill-faint", "middle")


def draw_frame(drawing: Drawing, column: LayerColumn, tops: Sequence[float], x: float, outside: int) -> None:
    """The frame of a layer, and how many there are."""
    high, low = tops[column.last] - 10, tops[column.first] + column.boxes[column.first].height + GAP - 5
    left, wide = x - WIDTH / 2 - SIDE - 8, WIDTH + 2 * SIDE + 16
    drawing.rectangle(left, high, wide, low - high, "fill-paper stroke-line", radius=8, dashed=True)
    edge = left - 8 if outside < 0 else left + wide + 8
    anchor: Anchor = "end" if outside < 0 else "start"
    drawing.text(edge, (high + low) / 2, f"{column.layers} ×", 15, anchor=anchor, bold=True)


def draw_arrow(
    drawing: Drawing, x: float, low: float, high: float, shape: str, side: int, label: float | None = None
) -> None:
    """An arrow upwards, with the shape of what flows to the left (`side` is −1) or right (1) of it."""
    drawing.polyline([(x, low), (x, high + 1)], "stroke-ink")
    drawing.path(f"M{x} {high}l-4 7h8z", "fill-ink")
    y = (low + high) / 2 + 6 if label is None else label
    drawing.text(x + side * 8, y, shape, 11, "fill-faint", "end" if side < 0 else "start")


def draw_residual(drawing: Drawing, x: float, low: float, high: float, outside: int, distance: float) -> None:
    """A line around a sub-layer, at a distance from its box, from its input to the sum."""
    edge = x + outside * WIDTH / 2
    beside = edge + outside * distance
    drawing.polyline([(x, low), (beside, low), (beside, high), (edge, high)], "stroke-ink")
    drawing.path(f"M{edge} {high}l{outside * 7} -4v8z", "fill-ink")


def draw_memory(drawing: Drawing, encoder_top: float, cross: float, shape: str) -> None:
    """The encoder's output to the decoder's encoder-decoder attention."""
    high, edge, middle = encoder_top - 28, DECODER_X - WIDTH / 2, (ENCODER_X + DECODER_X) / 2
    route = [(ENCODER_X, encoder_top), (ENCODER_X, high), (middle, high), (middle, cross), (edge, cross)]
    drawing.polyline(route, "stroke-self", stroke=2)
    drawing.path(f"M{edge} {cross}l-8 -5v10z", "fill-self")
    drawing.text(ENCODER_X + 4, high - 8, shape, 11, "fill-faint")
    drawing.text(ENCODER_X - 100, high - 8, "keys and values", 11, "fill-faint")
