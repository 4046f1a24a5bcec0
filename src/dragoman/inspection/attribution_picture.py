"""The picture of what each source token contributes to each target token."""

import numpy as np

from dragoman.inspection.attribution import Attribution
from dragoman.inspection.drawing import Drawing, diverging, widest
from dragoman.inspection.inspection import Inspection
from dragoman.inspection.labels import tokens_in
from dragoman.inspection.layout import finished, label_axes, sentences


def attribution_picture(inspection: Inspection, attribution: Attribution) -> str:
    """Integrated gradients as a heat map: a row for each target token, a column for each source token."""
    source, source_note = tokens_in(attribution.source, "source")
    target, target_note = tokens_in(attribution.target, "target")
    scores = attribution.integrated[: len(target), : len(source)]
    largest = float(np.abs(scores).max(initial=0)) or 1.0
    drawing = Drawing(
        "attribution",
        "What each source token contributes to each target token",
        "Integrated gradients of the log-probability of each target token (rows) from embeddings of 0 to "
        f"those of the source tokens (columns), in nats. {sentences(inspection)}",
    )
    cell = 24
    left, top = 44 + widest(target), 66 + 0.87 * widest(source)
    label_axes(drawing, target, source, left, top, cell)
    drawing.rectangle(left, top, cell * len(source), cell * len(target), "fill-zero stroke-line")
    with drawing.group("cells scores"):
        for row, predicted in enumerate(target):
            for column, token in enumerate(source):
                score = float(scores[row, column])
                shade, x, y = diverging(score / largest), left + column * cell, top + row * cell
                title = f"target: {predicted}\nsource: {token}\ncontribution: {score:+.3f} nats"
                drawing.rectangle(x, y, cell, cell, shade.css, title, opacity=shade.opacity)
    stops = [(-1.0, f"−{largest:.2f}"), (0.0, "0"), (1.0, f"+{largest:.2f}")]
    drawing.legend(16, drawing.height + 24, "contribution to the log-probability, nats", diverging, stops)
    gap = attribution.log_probabilities - attribution.baseline - attribution.integrated.sum(1)
    note = (
        "The sum of a row is the token's log-probability minus that with source embeddings of 0. "
        f"The largest error of a sum is {float(np.abs(gap).max()):.1g} nats."
    )
    return finished(drawing, [note, source_note, target_note])
