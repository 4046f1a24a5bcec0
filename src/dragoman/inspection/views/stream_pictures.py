"""The residual stream as pictures: norms, shares of the sub-layers, and the logit lens.

Shapes: T target tokens, P positions, N layers.
"""

import math
from collections.abc import Sequence

from dragoman.inspection.analyse.summaries import decisions, mean_shares
from dragoman.inspection.record.record import Array, Record
from dragoman.inspection.views.drawing import Axes, Drawing, sequential, visible, widest
from dragoman.inspection.views.labels import SUBLAYERS, Window, in_window, tokens_in
from dragoman.inspection.views.layout import SHARE_TICKS, finished, sentences

PARTS = {
    "input": ("stream", "on-low"),
    "self-attention": ("self", "on-high"),
    "convolution": ("self", "on-high"),
    "recurrence": ("self", "on-high"),
    "encoder-decoder attention": ("cross", "on-middle"),
    "feed-forward": ("feed", "on-middle"),
}
"""A layer's input and what its sub-layers add, with the colour of each and that of a label on it."""


POST_NORM = (
    "This model normalises the sum after each sub-layer (post-norm). Norms after a layer are those of "
    "normalised vectors, and a share is not that of the sum to which the sub-layer adds: it does not compare "
    "sub-layers."
)


def residual_stream(inspection: Record, window: Window | None = None) -> str:
    """Norms of the residual stream by layer, a line for each position, and the shares of sub-layers."""
    stream, (encoder, decoder) = inspection.stream, SUBLAYERS[inspection.model.architecture]
    source, source_note = tokens_in(inspection.source, "source", window)
    target, target_note = tokens_in(inspection.target, "target", window)
    drawing = Drawing(
        "residual-stream",
        "The residual stream",
        "Norms of each position's features after the embedding and after each layer, and what each sub-layer "
        f"adds. {sentences(inspection)}",
    )
    norm_chart(drawing, "Encoder", stream.encoder, source, in_window(len(inspection.source), window).start)
    share_bars(drawing, stream.encoder, stream.encoder_sublayers, encoder)
    norm_chart(drawing, "Decoder", stream.decoder, target, in_window(len(inspection.target), window).start)
    share_bars(drawing, stream.decoder, stream.decoder_sublayers, decoder)
    y = drawing.height + 26
    for row, name in enumerate(["input", *decoder]):
        drawing.rectangle(16, y + row * 24, 16, 16, f"fill-{PARTS[name][0]} stroke-line")
        drawing.text(42, y + row * 24 + 13, name, css="fill-faint")
    shares = (
        "A share is the norm of what a sub-layer adds, divided by the sum of these norms and that of the "
        "layer's input; means over positions."
    )
    post = POST_NORM if inspection.model.norm == "post" else ""
    return finished(drawing, [shares, post, source_note, target_note])


def norm_chart(drawing: Drawing, side: str, norms: Array, tokens: Sequence[str], first: int) -> None:
    """Norms [N+1 P] by layer below what is drawn, a line for each token, the first at position `first`."""
    layers, _ = norms.shape
    y = drawing.height + 30
    drawing.text(16, y, side, 13, bold=True)
    axes = Axes(drawing, 64, y + 44, 460, 180, (0, layers - 1), (0, float(norms.max(initial=1e-9))))
    labels = [(float(n), "embedding" if n == 0 else str(n)) for n in range(layers)]
    axes.draw("layer", "norm of the features (no unit)", labels)
    for place, token in enumerate(tokens, first):
        points = [axes.place(layer, float(norms[layer, place])) for layer in range(layers)]
        last = place == first + len(tokens) - 1
        title = f"position {place}: {token}\n" + ", ".join(f"{norm:.2f}" for norm in norms[:, place])
        drawing.polyline(points, "stroke-best" if last else "stroke-self", title, 1.0 if last else 0.5, 2)
    words = "A line is a position; the orange one is the last that is drawn."
    drawing.paragraph(64, drawing.height + 18, words)


def share_bars(drawing: Drawing, norms: Array, sublayers: Array, names: Sequence[str]) -> None:
    """A bar for each layer below what is drawn: the shares of its input and of what sub-layers add."""
    left, top, width = 64.0, drawing.height + 14, 460.0
    for layer, row in enumerate(mean_shares(norms, sublayers).tolist()):
        x, y = left, top + layer * 26
        drawing.text(left - 8, y + 14, f"layer {layer + 1}", 11, "fill-faint", "end")
        for name, share in zip(["input", *names], row, strict=True):
            colour, label = PARTS[name]
            title = f"layer {layer + 1}, {name}: {share:.1%}"
            with drawing.group(title=title):
                drawing.rectangle(x, y, width * share, 20, f"fill-{colour} stroke-paper")
                if share > 0.08:
                    middle = x + width * share / 2
                    drawing.text(middle, y + 14, f"{share:.0%}", 11, f"fill-{label}", "middle")
            x += width * share
    drawing.text(
        left, drawing.height + 17, "share of the input and of each sub-layer, in %", 11, "fill-faint"
    )


def lens(inspection: Record, window: Window | None = None) -> str:
    """The likeliest next token after each decoder layer, for each target token (logit lens)."""
    tokens, note = tokens_in(inspection.target, "target", window)
    start = in_window(len(inspection.target), window).start
    first = [[layer[start + row][0] for layer in inspection.lens] for row in range(len(tokens))]  # [T, N]
    labels = [[visible(token.token) for token in row] for row in first]
    decided = decisions(inspection)[start : start + len(tokens)]
    wide = max(76.0, max((widest(row) for row in labels), default=0.0) + 50)
    left, top, height = 28 + widest(tokens), 84.0, 26.0
    drawing = Drawing(
        "lens",
        "Likeliest token after each decoder layer",
        f"What the output projection would predict if the decoder ended at a layer. {sentences(inspection)}",
    )
    for layer in range(len(inspection.lens)):
        x = left + (layer + 0.5) * wide
        drawing.text(x, top - 10, f"layer {layer + 1}", 11, "fill-faint", "middle")
    for row, token in enumerate(tokens):
        y = top + row * height
        drawing.label(left - 10, y + 17, token, anchor="end")
        for layer, (best, label) in enumerate(zip(first[row], labels[row], strict=True)):
            x, share = left + layer * wide, math.exp(best.log_probability)
            with drawing.group(title=f"layer {layer + 1}\n{label}\nprobability: {share:.3f}"):
                shade, same = sequential(share), label == token
                drawing.cell(x, y, wide, height, shade)
                drawing.label(x + 6, y + 17, label, css=shade.label, bold=same)
                drawing.text(x + wide - 6, y + 17, f"{share:.2f}", 11, shade.label, "end")
                if decided[row] == layer + 1:
                    drawing.rectangle(x + 1, y + 1, wide - 2, height - 2, "curve stroke-best", stroke=2)
    drawing.legend(16, drawing.height + 20, "probability of the likeliest token", sequential, SHARE_TICKS)
    rows = "A row is a token of the translation. Bold: the layer predicts this token."
    frames = "Framed: where the decision fell; this layer and all after it predict the token."
    return finished(drawing, [rows, frames, note])
