"""The picture of what each token contributes to each target token."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dragoman.inspection.attribution import Attribution
from dragoman.inspection.drawing import Drawing, diverging, sequential, widest
from dragoman.inspection.inspection import Array, Inspection
from dragoman.inspection.labels import tokens_in
from dragoman.inspection.layout import finished, label_axes, sentences
from dragoman.inspection.views import Method
from dragoman.system.errors import DragomanError

CELL = 24  # pixels
TITLE = "What each token contributes to each target token"
GAP = 14  # between the source tokens and those that the decoder reads
NAMES: dict[Method, str] = {
    "integrated-gradients": "integrated gradients",
    "gradient-input": "gradient × input",
    "saliency": "saliency",
    "occlusion": "occlusion",
}

ABOUT_CONTRAST = (
    "Each row is a contrast, token ≠ other token: the log-probability of the target token minus that of the "
    "other token after the same tokens."
)


def attribution_picture(
    inspection: Inspection,
    attribution: Attribution,
    method: Method = "integrated-gradients",
    layer: int | None = None,
) -> str:
    """A heat map: a row for each target token, a column for each source token and, if they are attributed,
    for each token that the decoder reads.

    With `layer`, counted from 1, the input of `gradient-input` is the output of this encoder layer. Raises
    `DragomanError` if there is no such layer, or its contributions are not known.
    """
    if layer is not None:
        attribution = of_layer(attribution, layer)
    source, source_note = tokens_in(attribution.source, "source")
    target, target_note = tokens_in(attribution.target, "target")
    other, _ = tokens_in(attribution.other, "target")
    rows = [" ≠ ".join(pair) for pair in zip(target, other, strict=True)] if other else target
    prefix, _ = tokens_in(attribution.prefix, "target")
    scores, all_sources = attribution.of(method)[: len(target)], len(attribution.source)
    parts = [scores[:, : len(source)], scores[:, all_sources : all_sources + len(prefix)]]
    largest = max(float(np.abs(part).max(initial=0)) for part in parts) or 1.0
    unit = "norm of the gradient, nats per unit" if method == "saliency" else "contribution, nats"
    drawing = Drawing(
        f"attribution-{method}",
        f"{'What makes each target token likelier than another' if other else TITLE}: "
        f"{NAMES[method] if layer is None else f'gradient × output of encoder layer {layer}'}",
        f"Contributions to {'the contrast' if other else 'the log-probability'} of each target token (rows) "
        f"of the source tokens{' and of the target tokens before it' * bool(prefix)} (columns). "
        f"{sentences(inspection)}",
    )
    left, top = 44 + widest(rows), 66 + 0.87 * max(widest(source), widest(prefix))
    label_axes(drawing, rows, source, left, top, CELL)
    draw_contributions(drawing, parts[0], rows, source, left, top, largest, "source", unit)
    if prefix:
        left += CELL * len(source) + GAP
        label_axes(drawing, [], prefix, left, top, CELL)
        draw_contributions(drawing, parts[1], rows, prefix, left, top, largest, "before it", unit)
    stops = [(0.0, "0"), (1.0, f"{largest:.2f}")]
    if method != "saliency":
        stops = [(-1.0, f"−{largest:.2f}"), (0.0, "0"), (1.0, f"+{largest:.2f}")]
    scale = sequential if method == "saliency" else diverging
    drawing.legend(16, drawing.height + 24, unit, scale, stops)
    columns = "The columns on the right are the target tokens before it, START first." if prefix else ""
    about = note_about(attribution, method, layer)
    notes = [ABOUT_CONTRAST if other else "", about, columns, source_note, target_note]
    return finished(drawing, [note for note in notes if note])


def of_layer(attribution: Attribution, layer: int) -> Attribution:
    """The attribution with the contributions of an encoder layer in place of those of the embeddings."""
    count = len(attribution.layers)
    if not 1 <= layer <= count:
        known = f"there are {count}, counted from 1" if count else "this model has none with attributions"
        raise DragomanError(f"There is no encoder layer {layer}; {known}.")
    return replace(attribution, prefix=(), gradient_input=attribution.layers[layer - 1])


def draw_contributions(
    drawing: Drawing,
    scores: Array,
    target: Sequence[str],
    tokens: Sequence[str],
    left: float,
    top: float,
    largest: float,
    side: str,
    unit: str,
) -> None:
    """A cell for each number of [T C]."""
    name, of = unit.split(", ")
    drawing.rectangle(left, top, CELL * len(tokens), CELL * len(target), "fill-zero stroke-line")
    with drawing.group("cells scores"):
        for row, predicted in enumerate(target):
            for column, token in enumerate(tokens):
                score = float(scores[row, column])
                shade, x, y = diverging(score / largest), left + column * CELL, top + row * CELL
                title = f"target: {predicted}\n{side}: {token}\n{name}: {score:+.3f} {of}"
                drawing.rectangle(x, y, CELL, CELL, shade.css, title, opacity=shade.opacity)


def note_about(attribution: Attribution, method: Method, layer: int | None) -> str:
    """What the numbers of a method are."""
    tokens = "embeddings" if attribution.prefix else "source embeddings"
    what = "this difference" if attribution.other else "the token's log-probability"
    if layer is not None:
        return (
            f"The gradient of {what} with respect to the output of the layer, times this output, summed over "
            "its features."
        )
    if method == "saliency":
        return f"The Euclidean norm of the gradient of {what} with respect to the embedding. It has no sign."
    if method == "occlusion":
        return f"{what.capitalize()} minus that with an embedding of 0 in place of one token's."
    if method == "gradient-input":
        return f"The gradient of {what} times the embedding, summed over its features."
    gap = attribution.log_probabilities - attribution.baseline - attribution.integrated.sum(1)
    return (
        f"The sum of a row is {what} minus that with {tokens} of 0. "
        f"The largest error of a sum is {float(np.abs(gap).max()):.1g} nats."
    )
