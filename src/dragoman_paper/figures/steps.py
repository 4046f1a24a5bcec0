"""Decoding seen step by step: what each query attends to and what it predicts.

Shapes: T target tokens, N layers, H heads.
"""

import math
from collections.abc import Sequence

from dragoman.inspection.inspection import Inspection
from dragoman.inspection.record.record import TokenProbability
from dragoman.inspection.views.drawing import Drawing, decimal, visible
from dragoman.inspection.views.layout import finished, sentences
from dragoman.system.errors import DragomanError
from dragoman_paper.figures.attention_figures import head_numbers, layer_number
from dragoman_paper.figures.choice import Choice

MAX_STEPS, ACROSS, WIDTH, ROW, BAR, NEXT = 24, 3, 350.0, 19.0, 70.0, 5


def predictions(inspection: Inspection, step: int) -> Sequence[TokenProbability]:
    """The likeliest tokens after `step` tokens of the translation, likeliest first."""
    return inspection.candidates[inspection.best_path[step]]


def decoding_steps(inspection: Inspection, choice: Choice) -> str:
    """A panel for each step: the keys of masked self-attention with weights, and the likeliest tokens."""
    attention = inspection.attention.decoder
    layer = layer_number(choice.layer, len(attention))
    heads = head_numbers(choice.heads, attention.shape[1])
    weights = attention[layer][heads].mean(0)  # [T, T]
    inputs = [visible(token) for token in inspection.decoder_inputs]
    steps = min(len(inspection.target), MAX_STEPS)
    numbers = ", ".join(map(str, choice.heads))
    heads_name = {0: "mean of all heads", 1: f"head {numbers}"}.get(
        len(choice.heads), f"mean of heads {numbers}"
    )
    drawing = Drawing(
        "decoding-steps",
        f"Masked self-attention step by step: decoder layer {layer + 1}, {heads_name}",
        "A panel for each step. Left: the keys that the query may attend to, with its weights. Right: the "
        f"likeliest next tokens with their probabilities. {sentences(inspection)}",
    )
    top = 56.0
    for first in range(0, steps, ACROSS):
        row = range(first, min(first + ACROSS, steps))
        for column, step in enumerate(row):
            draw_step(drawing, inspection, weights[step, : step + 1].tolist(), inputs, step, column, top)
        top += 52 + ROW * max(row[-1] + 1, NEXT)
    note = f"Only the first {MAX_STEPS} of {len(inspection.target)} steps are drawn."
    notes = [
        "Left bars: attention weights, which sum to 1; bold is the query's own token. Later tokens are "
        "masked: they do not exist yet. Right bars: probabilities; the orange token is the translation's.",
    ]
    return finished(drawing, notes + [note] * (len(inspection.target) > MAX_STEPS))


def draw_step(
    drawing: Drawing,
    inspection: Inspection,
    weights: Sequence[float],
    inputs: Sequence[str],
    step: int,
    column: int,
    top: float,
) -> None:
    """The panel of a step."""
    x = 16 + column * WIDTH
    best = visible(inspection.target[step])
    drawing.text(x, top + 12, f"Step {step + 1}", 12, bold=True)
    for row, (key, weight) in enumerate(zip(inputs, weights, strict=False)):
        y = top + 22 + row * ROW
        drawing.rectangle(x, y + 2, BAR * weight, ROW - 5, "fill-self", f"key: {key}\nweight: {weight:.3f}")
        drawing.text(x + BAR + 4, y + 12, f"{weight:.2f}", 10.5, "fill-faint")
        drawing.label(x + BAR + 34, y + 12, short(key), 11, bold=row == step)
    drawing.text(x + 176, top + 12, "→", 12, "fill-faint", "middle")
    for row, prediction in enumerate(predictions(inspection, step)[:NEXT]):
        y, share, token = (
            top + 22 + row * ROW,
            math.exp(prediction.log_probability),
            visible(prediction.token),
        )
        colour = "best" if token == best else "line"
        drawing.rectangle(
            x + 190, y + 2, 0.7 * BAR * share, ROW - 5, f"fill-{colour}", f"{token}: {share:.4f}"
        )
        drawing.text(x + 194 + 0.7 * BAR, y + 12, f"{share:.2f}", 10.5, "fill-faint")
        drawing.label(x + 224 + 0.7 * BAR, y + 12, short(token), 11, bold=token == best)


def short(token: str) -> str:
    """A token's first characters, for narrow columns."""
    return token if len(token) <= 9 else f"{token[:8]}…"


def softmax(inspection: Inspection, choice: Choice) -> str:
    """The likeliest next tokens of a step as bars, counted from 1; the first step without a choice.

    Raises `DragomanError` if the translation has no such step.
    """
    steps, step = len(inspection.target), 1 if choice.step is None else choice.step
    if not 1 <= step <= steps:
        raise DragomanError(f"There is no step {step}; this translation has {steps}, counted from 1.")
    likeliest = predictions(inspection, step - 1)
    prefix = " ".join(visible(token) for token in inspection.decoder_inputs[:step])
    drawing = Drawing(
        "softmax",
        f"Next token at step {step} of {steps}",
        f"Probabilities of the likeliest tokens after: {prefix}. {sentences(inspection)}",
    )
    drawing.paragraph(16, 50, f"after: {prefix}")
    left, top = 150.0, drawing.height + 24
    shares = [math.exp(prediction.log_probability) for prediction in likeliest]
    rows = [(visible(prediction.token), share) for prediction, share in zip(likeliest, shares, strict=True)]
    rows.append(("all other tokens", max(1 - sum(shares), 0.0)))
    for row, (token, share) in enumerate(rows):
        y = top + 26 * row
        chosen = row < len(likeliest) and likeliest[row].token == inspection.target[step - 1]
        drawing.label(left - 10, y + 14, token, anchor="end", bold=chosen)
        css = "best" if chosen else "self" if row < len(likeliest) else "line"
        drawing.rectangle(left, y, 400 * share, 18, f"fill-{css}", f"{token}: {share:.6f}")
        nats = f", {decimal(likeliest[row].log_probability, 3)} nats" if row < len(likeliest) else ""
        drawing.text(left + 400 * share + 8, y + 14, f"{share:.4f}{nats}", 11, "fill-faint")
    words = (
        "Softmax of the logits: probabilities, and their logarithms in nats. "
        "Bold and orange: the translation's token."
    )
    return finished(drawing, [words])
