"""The picture of what each token contributes to each target token."""

from collections.abc import Sequence

import numpy as np

from dragoman.inspection.analyse.attribution import Attribution
from dragoman.inspection.analyse.methods import UNSIGNED, Method
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.views.drawing import Drawing, decimal, diverging, sequential, widest
from dragoman.inspection.views.labels import tokens_in
from dragoman.inspection.views.layout import finished, label_axes, sentences

CELL = 24  # pixels
TITLE = "What each token contributes to each target token"
GAP = 14  # between the source tokens and those that the decoder reads
NAMES: dict[Method, str] = {
    "integrated-gradients": "integrated gradients",
    "gradient-input": "gradient × input",
    "saliency": "saliency",
    "occlusion": "occlusion",
    "sequential-integrated-gradients": "sequential integrated gradients",
    "discretized-integrated-gradients": "discretized integrated gradients",
    "gradient-shap": "gradient SHAP",
    "deeplift": "DeepLIFT",
    "lime": "LIME",
    "reagent": "ReAGent",
}
UNITS: dict[Method, str] = {
    "saliency": "norm of the gradient, nats per unit",
    "reagent": "share of importance, of 1",
}

ABOUT_CONTRAST = (
    "Each row is a contrast, token ≠ other token: the log-probability of the target token minus that of the "
    "other token after the same tokens."
)


def attribution_picture(
    inspection: Record, attribution: Attribution, method: Method = "integrated-gradients"
) -> str:
    """A heat map: a row for each target token, a column for each source token and, if they are attributed,
    for each token that the decoder reads.
    """
    source, source_note = tokens_in(attribution.source, "source")
    target, target_note = tokens_in(attribution.target, "target")
    other, _ = tokens_in(attribution.other, "target")
    rows = [" ≠ ".join(pair) for pair in zip(target, other, strict=True)] if other else target
    prefix, _ = tokens_in(attribution.prefix, "target")
    scores, all_sources = attribution.of(method)[: len(target)], len(attribution.source)
    parts = [scores[:, : len(source)], scores[:, all_sources : all_sources + len(prefix)]]
    layer = attribution.layer
    largest = max(float(np.abs(part).max(initial=0)) for part in parts) or 1.0
    unit = UNITS.get(method, "contribution, nats")
    drawing = Drawing(
        f"attribution-{method}",
        f"{'What makes each target token likelier than another' if other else TITLE}: "
        f"{NAMES[method]}{f' at the output of encoder layer {layer}' if layer else ''}",
        f"What the source tokens{' and the earlier target tokens' if prefix else ''} (columns) contribute to "
        f"{'the contrast' if other else 'the log-probability'} of each target token (rows). "
        f"{sentences(inspection)}",
    )
    left, top = 44 + widest(rows), 66 + 0.87 * max(widest(source), widest(prefix))
    label_axes(drawing, rows, source, left, top, CELL)
    draw_contributions(drawing, parts[0], rows, source, left, top, largest, "source", unit)
    if prefix:
        left += CELL * len(source) + GAP
        label_axes(drawing, [], prefix, left, top, CELL)
        draw_contributions(drawing, parts[1], rows, prefix, left, top, largest, "earlier target token", unit)
    stops = [(0.0, "0"), (1.0, f"{largest:.2f}")]
    if method not in UNSIGNED:
        stops = [(-1.0, f"−{largest:.2f}"), (0.0, "0"), (1.0, f"+{largest:.2f}")]
    scale = sequential if method in UNSIGNED else diverging
    drawing.legend(16, drawing.height + 24, unit, scale, stops)
    columns = "The columns on the right are the earlier target tokens, START first." if prefix else ""
    about = note_about(attribution, method)
    notes = [ABOUT_CONTRAST if other else "", about, columns, source_note, target_note]
    return finished(drawing, notes)


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
    name, unit_name = unit.split(", ")
    drawing.rectangle(left, top, CELL * len(tokens), CELL * len(target), "fill-zero stroke-line")
    with drawing.group("cells scores"):
        for row, predicted in enumerate(target):
            for column, token in enumerate(tokens):
                score = float(scores[row, column])
                shade, x, y = diverging(score / largest), left + column * CELL, top + row * CELL
                value = decimal(score, 3, "" if unit in UNITS.values() else "+")
                title = f"target: {predicted}\n{side}: {token}\n{name}: {value} {unit_name}"
                drawing.rectangle(x, y, CELL, CELL, shade.css, title, opacity=shade.opacity)


def note_about(attribution: Attribution, method: Method) -> str:
    """What the numbers of a method are."""
    what = "this difference" if attribution.other else "the token's log-probability"
    input_name, baseline_name = "embedding", "an embedding of 0"
    if attribution.layer is not None:
        input_name, baseline_name = "output of the layer", "the output of the layer for embeddings of 0"
    tokens = "embeddings" if attribution.prefix else "source embeddings"
    notes: dict[Method, str] = {
        "integrated-gradients": f"The sum of a row is {what} minus that with {tokens} of 0.",
        "gradient-input": f"The gradient of {what} times the {input_name}, summed over its features.",
        "saliency": f"The norm of the gradient of {what} with respect to the {input_name}; it has no sign.",
        "occlusion": f"{what.capitalize()} minus that with {baseline_name} in place of one token's.",
        "sequential-integrated-gradients": f"Integrated gradients of each token alone: {what} minus "
        f"that with {baseline_name} in place of its own.",
        "discretized-integrated-gradients": "Integrated on a path from token to token in the space of "
        "embeddings, in place of a straight line from embeddings of 0. The sum of a row may be far from "
        "the difference of log-probabilities.",
        "gradient-shap": f"The sum of a row is {what} minus its mean over sentences of random tokens, but "
        "for the error of the integrals, which can exceed 1 nat. The random tokens depend on a seed.",
        "deeplift": "DeepLIFT's rescale rule in the feed-forward sub-layers; other functions have their "
        "gradients at the input, so a row does not sum to the difference of log-probabilities.",
        "lime": f"The weights of a linear model that predicts {what} from which tokens have {baseline_name}.",
        "reagent": "The shares of a row sum to 1, even if the target token does not depend on these tokens: "
        "the importance by random replacements. Shares near 1 / number of tokens may be chance.",
    }
    note = notes[method]
    if method == "integrated-gradients":
        gap = attribution.log_probabilities - attribution.baseline - attribution.of(method).sum(1)
        note += f" The largest error of a sum is {float(np.abs(gap).max()):.1g} nats."
    return note
