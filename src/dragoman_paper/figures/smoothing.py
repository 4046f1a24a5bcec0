"""The target distribution with label smoothing (section 5.4). This module imports no torch."""

import math
from dataclasses import dataclass

from dragoman.inspection.views.drawing import Drawing
from dragoman.inspection.views.layout import finished


@dataclass(frozen=True)
class Target:
    """The distribution that a prediction is compared with."""

    gold: float
    """The probability of the token that the text has."""
    other: float
    """Of each other token."""
    others: int
    """How many others there are."""

    @property
    def entropy(self) -> float:
        """In nats: the least loss that a model can reach."""
        pairs = ((self.gold, 1), (self.other, self.others))
        return -sum(count * share * math.log(share) for share, count in pairs if share > 0)


def smoothed_target(smoothing: float, vocabulary: int) -> Target:
    """(1 − ε) · gold + ε / V, as `LabelSmoothedCrossEntropy` has it."""
    share = smoothing / vocabulary
    return Target(1 - smoothing + share, share, vocabulary - 1)


def tensor2tensor_target(smoothing: float, vocabulary: int) -> Target:
    """1 − ε for the token of the text, ε / (V − 1) for each other, as Tensor2Tensor has it."""
    return Target(1 - smoothing, smoothing / (vocabulary - 1), vocabulary - 1)


def label_smoothing(smoothing: float, vocabulary: int, source: str) -> str:
    """Both distributions as bars on a logarithmic scale. `source` is where ε and V come from."""
    drawing = Drawing(
        "label-smoothing",
        f"Target distribution with label smoothing, ε = {smoothing:g}, V = {vocabulary:,}",
        "Bars are probabilities of tokens on a logarithmic scale.",
    )
    pairs = [
        ("Dragoman: (1 − ε) · gold + ε / V", smoothed_target(smoothing, vocabulary)),
        ("Tensor2Tensor: 1 − ε, and ε / (V − 1)", tensor2tensor_target(smoothing, vocabulary)),
    ]
    lowest = math.floor(math.log10(min(target.other for _, target in pairs) or 1e-6)) if smoothing else -6
    for title, target in pairs:
        draw_target(drawing, title, target, lowest)
    axis(drawing, lowest)
    notes = [
        source,
        "The paper gives ε = 0.1, and not how the share of the other tokens is spread. Tensor2Tensor with "
        "ε · (V − 1) / V has the distribution that Dragoman has with ε.",
        "With ε > 0 a certain prediction has a higher loss. The paper reports a worse perplexity, and "
        "better accuracy and BLEU.",
    ]
    return finished(drawing, notes)


LEFT, WIDTH = 190.0, 420.0


def draw_target(drawing: Drawing, title: str, target: Target, lowest: int) -> None:
    """A distribution below what is drawn: the gold token, any other, and all others together."""
    y = drawing.height + 34
    drawing.text(16, y, title, 13, bold=True)
    rows = [
        ("the token of the text", target.gold, "best"),
        ("each other token", target.other, "self"),
        (f"all {target.others:,} others", target.other * target.others, "self"),
    ]
    for row, (name, share, colour) in enumerate(rows):
        top = y + 14 + 26 * row
        drawing.text(LEFT - 10, top + 14, name, anchor="end")
        width = WIDTH * (1 - math.log10(share) / lowest) if share > 0 else 0.0
        drawing.rectangle(LEFT, top, max(width, 0.0), 18, f"fill-{colour}", f"{name}: {share:.6g}")
        drawing.text(LEFT + max(width, 0.0) + 8, top + 14, f"{share:.6g}", 11, "fill-faint")
    words = f"entropy, the least loss that can be reached: {target.entropy:.4f} nats"
    drawing.text(LEFT, y + 14 + 26 * 3 + 14, words, 11, "fill-faint")


def axis(drawing: Drawing, lowest: int) -> None:
    """Powers of ten below the bars."""
    y = drawing.height + 12
    drawing.polyline([(LEFT, y), (LEFT + WIDTH, y)], "stroke-line")
    step = max(1, -lowest // 6)
    for power in range(0, lowest - 1, -step):
        x = LEFT + WIDTH * (1 - power / lowest)
        drawing.polyline([(x, y), (x, y + 4)], "stroke-line")
        drawing.text(x, y + 18, f"{10.0**power:g}", 11, "fill-faint", "middle")
    drawing.text(
        LEFT + WIDTH / 2, y + 36, "probability (logarithmic scale)", css="fill-faint", anchor="middle"
    )
