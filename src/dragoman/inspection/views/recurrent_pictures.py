"""Pictures of an LSTM or GRU: its states and its architecture; beam and attention have the usual pictures.

Shapes: S source and T target tokens, N decoder layers.
"""

from collections.abc import Sequence

import numpy as np

from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.views.architecture import Box, LayerColumn, draw_architecture
from dragoman.inspection.views.drawing import Axes, Drawing, widest
from dragoman.inspection.views.labels import Window, in_window, tokens_in
from dragoman.inspection.views.layout import finished, sentences
from dragoman.model.settings import ModelSettings
from dragoman.system.errors import DragomanError

LACKING = {
    "encoder": "no self-attention",
    "decoder": "no self-attention",
    "masks": "no self-attention, and so no mask but that of padding",
    "positions": "no position table: the order of tokens is in its recurrence",
    "distances": "no position table: the order of tokens is in its recurrence",
    "lens": "no residual stream that its output projection could read after each layer",
    "neurons": "no feed-forward sub-layers",
}
"""What the views show that an LSTM or GRU does not have."""


def check_view(inspection: Record, view: str) -> None:
    """Raise `DragomanError` for a view of what an LSTM or GRU does not have."""
    if view in LACKING:
        name = {"lstm": "an LSTM", "gru": "a GRU"}[inspection.model.architecture]
        raise DragomanError(
            f"This model is {name}, which has {LACKING[view]}; ask for beam, cross, alignment, statistics, "
            "stream or model."
        )


# ---- states


def states(inspection: Record, window: Window | None = None) -> str:
    """Norms of the embeddings and states by position, a line for each layer."""
    source, source_note = tokens_in(inspection.source, "source", window)
    target, target_note = tokens_in(inspection.target, "target", window)
    drawing = Drawing(
        "states",
        "Norms of the states",
        "Norms of the embeddings and of the states of each layer, by position. " + sentences(inspection),
    )
    layers = inspection.model.encoder_layers
    encoder = inspection.stream.encoder[:, in_window(len(inspection.source), window)]
    decoder = inspection.stream.decoder[:, in_window(len(inspection.target), window)]
    position_chart(drawing, "Encoder", encoder, ["embedding", f"layer {layers}, both directions"], source)
    names = ["embedding", *(f"layer {number}" for number in range(1, len(decoder)))]
    position_chart(drawing, "Decoder", decoder, names, target)
    note = "A target position is the one that predicts the token; its embedding is that of the token before."
    return finished(drawing, [note, source_note, target_note])


def position_chart(
    drawing: Drawing, side: str, norms: Array, names: Sequence[str], tokens: Sequence[str]
) -> None:
    """Norms [N+1 P] by position below what is drawn, a line for each row with its name."""
    step, height, left = 34.0, 160.0, 64.0
    y = drawing.height + 34
    drawing.text(16, y, side, 13, bold=True)
    width = step * max(len(tokens) - 1, 1)
    most = float(norms.max(initial=1e-9))
    axes = Axes(drawing, left, y + 44, width, height, (0, max(len(tokens) - 1, 1)), (0, most))
    axes.draw("", "norm (no unit)", [])
    label = y
    for row in np.argsort(-norms[:, -1]):  # so that labels stand below each other
        name = names[row]
        colour = "cross" if row == 0 else "best" if row == len(names) - 1 else "self"
        points = [axes.place(place, float(norms[row, place])) for place in range(len(tokens))]
        title = f"{name}\n" + ", ".join(
            f"{token} {norm:.2f}" for token, norm in zip(tokens, norms[row], strict=True)
        )
        drawing.polyline(points, f"stroke-{colour}", title, stroke=2.5 if colour == "best" else 1.5)
        label = max(label + 13, points[-1][1] + 4)
        drawing.text(points[-1][0] + 8, label, name, 11, "fill-faint")
    bottom = y + 44 + height
    for place, token in enumerate(tokens):
        drawing.label(left + place * step + 3, bottom + 14, token, 11, turn=60)
    drawing.reach(0, bottom + 14 + 0.87 * widest(tokens, 11))


# ---- the model


def architecture(inspection: Record) -> str:
    """The encoder, its attention and the decoder, with shapes of this call and numbers of parameters."""
    name = inspection.model.architecture.upper()
    drawing = Drawing(
        "architecture",
        f"The {name} of this model",
        f"The {name} encoder on the left and the decoder on the right, with {score(inspection.model)} "
        "attention between them.",
    )
    draw_architecture(drawing, encoder_column(inspection), decoder_column(inspection), 1, "[S, 2 d_model]")
    start = parameters(inspection, "start")
    return finished(
        drawing,
        [
            f"In this call S = {len(inspection.source)} source and T = {len(inspection.target)} target "
            f"tokens; d_model = {inspection.model.d_model}; V is the size of the target vocabulary.",
            "The query is the first decoder layer's state before the token. The decoder's first states are "
            f"made from the mean of the encoder's, with {start:,} parameters.",
            *["The first decoder layer also reads the last token's features."]
            * inspection.model.input_feeding,
        ],
    )


def encoder_column(inspection: Record) -> LayerColumn:
    """Embedding, and recurrent layers in both directions."""
    model = inspection.model
    name, count = model.architecture.upper(), parameters(inspection, "encoder")
    layers = Box(f"Bidirectional {name}", (f"{count:,} parameters in all",), "[S, 2 d_model]", "fill-zero")
    return LayerColumn([embedding_box(inspection, "source", "S"), layers], 1, 1, model.encoder_layers)


def decoder_column(inspection: Record) -> LayerColumn:
    """Embedding, attention, recurrent layers, features, logits and softmax."""
    model, name = inspection.model, inspection.model.architecture.upper()
    counts = [parameters(inspection, f"decoder.{layer}") for layer in range(model.decoder_layers)]
    read = 4 if model.input_feeding else 3
    attended = ("one head", own(inspection, "attention"))
    matrix = "own matrix" if model.tied == "none" else "the target embedding's matrix"
    boxes = [
        embedding_box(inspection, "target", "T"),
        Box(f"{score(model).capitalize()} attention", attended, f"[T, {read} d_model]", "fill-zero"),
        Box(name, (f"{sum(counts):,} parameters in all",), "[T, d_model]", "fill-zero"),
        Box(
            "tanh of a linear map",
            ("of state, context and embedding", own(inspection, "features")),
            "[T, d_model]",
            "fill-box",
        ),
        Box("Linear", (matrix,), "[T, V]", "fill-box"),
        Box("Softmax", (), "[T, V] probabilities of the next token", "fill-box"),
    ]
    return LayerColumn(boxes, 2, 2, model.decoder_layers)


def score(model: ModelSettings) -> str:
    """The score of the attention."""
    return model.attention_score or "additive"


def embedding_box(inspection: Record, side: str, length: str) -> Box:
    """The embedding of a side."""
    shared = side == "source" and inspection.model.tied == "all"
    count = "the target embedding's matrix" if shared else own(inspection, f"{side}_embedding")
    return Box(f"{side.capitalize()} embedding", (count,), f"[{length}, d_model]", "fill-box")


def own(inspection: Record, module: str) -> str:
    """A module's number of parameters, in words."""
    return f"{parameters(inspection, module):,} parameters"


def parameters(inspection: Record, module: str) -> int:
    """Numbers in the weights of a module."""
    return sum(part.parameters for part in inspection.modules if part.name == module)
