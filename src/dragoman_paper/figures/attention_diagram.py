"""The paper's Figure 2 with the sizes of a model: scaled dot-product attention and multi-head attention.

This module imports no torch.
"""

import math

from dragoman.inspection.views.drawing import Drawing
from dragoman.inspection.views.layout import finished
from dragoman.model.settings import ModelSettings
from dragoman_paper.figures.shapes import arrow, box

WIDTH, HEIGHT, STEP = 156.0, 40.0, 78.0  # of a box, and from a box to the one above it
LEFT, RIGHT, TOP = 190.0, 640.0, 146.0


def attention_diagram(model: ModelSettings) -> str:
    """Figure 2: T queries, S keys and values, the head widths d_k and d_v, and h heads."""
    drawing = Drawing(
        "figure-2",
        f"Attention with {model.heads} heads, d_model = {model.d_model}",
        "Left: scaled dot-product attention, from queries, keys and values at the bottom to their output. "
        "Right: multi-head attention, which does so in all heads at once.",
    )
    draw_one_head(drawing, model)
    draw_all_heads(drawing, model)
    sizes = (
        f"d_model = {model.d_model}, h = {model.heads}, d_k = {model.key_width}, d_v = {model.value_width}; "
        "T queries, S keys and values."
    )
    masks = (
        "Mask: padding is masked in every use, later positions in the decoder's self-attention "
        "(section 3.2.3)."
    )
    return finished(drawing, [sizes, masks])


def draw_one_head(drawing: Drawing, model: ModelSettings) -> None:
    """The left part: softmax(Q Kᵀ / √d_k) V."""
    d_k, d_v = model.key_width, model.value_width
    drawing.text(LEFT, 62, "Scaled dot-product attention", 13, anchor="middle", bold=True)
    steps = [
        ("MatMul", "weights times V", f"[T, {d_v}]"),
        ("SoftMax", "of each row", "[T, S]"),
        ("Mask", "−∞ where not allowed", "[T, S]"),
        ("Scale", f"÷ √d_k = {math.sqrt(d_k):.4g}", "[T, S]"),
        ("MatMul", "Q times Kᵀ", "[T, S]"),
    ]
    bottom = TOP + STEP * len(steps)
    for row, (name, detail, shape) in enumerate(steps):
        y = TOP + STEP * row
        box(drawing, LEFT, y, WIDTH, HEIGHT, name, detail)
        arrow(drawing, [(LEFT, y - HEIGHT / 2), (LEFT, y - STEP + HEIGHT / 2 + 1)])
        drawing.text(LEFT + 8, y - STEP / 2 + 4, shape, 11, "fill-faint")
    last = TOP + STEP * (len(steps) - 1) + HEIGHT / 2
    for x, name in ((LEFT - 44, f"Q [T, {d_k}]"), (LEFT + 44, f"K [S, {d_k}]")):
        arrow(drawing, [(x, bottom), (x, last + 1)])
        drawing.text(x, bottom + 16, name, anchor="middle")
    side = LEFT + WIDTH / 2 + 34
    arrow(drawing, [(side, bottom), (side, TOP), (LEFT + WIDTH / 2 + 1, TOP)])
    drawing.text(side, bottom + 16, f"V [S, {d_v}]", anchor="middle")


def draw_all_heads(drawing: Drawing, model: ModelSettings) -> None:
    """The right part: linear maps to h heads, attention in each, and a linear map of all of them."""
    d_model, d_k, d_v, heads = model.d_model, model.key_width, model.value_width, model.heads
    drawing.text(RIGHT, 62, "Multi-head attention", 13, anchor="middle", bold=True)
    wide, rows = 3 * 132.0, [TOP + STEP * row for row in range(4)]
    box(drawing, RIGHT, rows[0], WIDTH, HEIGHT, "Linear", f"W^O [{heads * d_v}, {d_model}]")
    arrow(drawing, [(RIGHT, rows[0] - HEIGHT / 2), (RIGHT, rows[0] - STEP + HEIGHT / 2 + 1)])
    drawing.text(RIGHT + 8, rows[0] - STEP / 2 + 4, f"[T, {d_model}]", 11, "fill-faint")
    box(drawing, RIGHT, rows[1], WIDTH, HEIGHT, "Concat", f"h · d_v = {heads * d_v}")
    arrow(drawing, [(RIGHT, rows[1] - HEIGHT / 2), (RIGHT, rows[0] + HEIGHT / 2 + 1)])
    drawing.text(RIGHT + 8, rows[0] + STEP / 2 + 4, f"[T, {heads * d_v}]", 11, "fill-faint")
    for shift in (12, 6, 0):
        box(drawing, RIGHT + shift, rows[2] - shift, wide - 90, HEIGHT, "Scaled dot-product attention")
    arrow(drawing, [(RIGHT, rows[2] - HEIGHT / 2 - 12), (RIGHT, rows[1] + HEIGHT / 2 + 1)])
    drawing.text(RIGHT + (wide - 90) / 2 + 22, rows[2] + 4, f"× {heads}", 14, bold=True)
    for number, (name, width) in enumerate((("V", d_v), ("K", d_k), ("Q", d_k))):
        x = RIGHT + (number - 1) * 136
        for shift in (8, 4, 0):
            box(drawing, x + shift, rows[3] - shift, 108, HEIGHT, "Linear", f"[{d_model}, {width}]")
        arrow(drawing, [(x, rows[3] - HEIGHT / 2 - 8), (x, rows[2] + HEIGHT / 2 + 1)])
        arrow(drawing, [(x, rows[3] + STEP), (x, rows[3] + HEIGHT / 2 + 1)])
        length = "T" if name == "Q" else "S"
        drawing.text(x, rows[3] + STEP + 16, f"{name} [{length}, {d_model}]", anchor="middle")
    drawing.text(RIGHT + 136 + 78, rows[3] + 4, f"× {heads}", 14, bold=True)
