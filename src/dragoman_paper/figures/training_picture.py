"""The curves of a run's training as charts, with the schedule's formula (section 5.3)."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.inspection.views.drawing import Axes, Drawing
from dragoman.inspection.views.layout import finished
from dragoman.training.curves import Curve, required_training

UNITS = {
    "loss": "loss, nats per target token",
    "negative log-likelihood": "negative log-likelihood, nats per target token",
    "BLEU": "BLEU of the validation data",
    "learning rate": "learning rate",
    "norm of the gradient": "norm of the gradient",
    "target tokens per second": "target tokens per second",
}
FROM_ZERO = ("BLEU", "BLEU of the old text", "learning rate", "norm of the gradient")
LOOKS = {"train": "self", "validation": "best", "schedule": "feed"}
WIDTH, HEIGHT, ACROSS, DOWN = 330.0, 150.0, 440.0, 236.0


def training_picture(run: Path) -> str:
    """A chart for each number of the log. Raises `DragomanError` if the run has no log or an empty one."""
    training = required_training(run)
    drawing = Drawing(
        "training", f"Training of {run.name}", "Charts of the numbers in the run's log over its updates."
    )
    charts = list(dict.fromkeys(curve.chart for curve in training.curves))
    last = max(step for curve in training.curves for step, _ in curve.points)
    for place, chart in enumerate(charts):
        curves = [curve for curve in training.curves if curve.chart == chart]
        left, top = 84 + ACROSS * (place % 2), 78 + DOWN * (place // 2)
        draw_chart(drawing, chart, curves, left, top, last)
    y = drawing.height + 24
    for place, (name, colour) in enumerate(LOOKS.items()):
        drawing.polyline([(16 + 130 * place, y), (44 + 130 * place, y)], f"stroke-{colour}", stroke=3)
        drawing.text(50 + 130 * place, y + 4, name, css="fill-faint")
    schedule = f"The schedule of this run: learning rate = {training.schedule}."
    return finished(drawing, [schedule])


def draw_chart(
    drawing: Drawing, chart: str, curves: Sequence[Curve], left: float, top: float, last: int
) -> None:
    """The curves of one number."""
    values = [value for curve in curves for _, value in curve.points]
    low = 0.0 if chart in FROM_ZERO else min(values)
    axes = Axes(drawing, left, top, WIDTH, HEIGHT, (0, last), (low, max(values)))
    axes.draw("update", UNITS.get(chart, chart))
    for curve in sorted(curves, key=lambda curve: curve.name != "schedule"):  # the formula is below
        points = [axes.place(step, value) for step, value in curve.points]
        wide = 5.0 if curve.name == "schedule" else 1.8
        colour = LOOKS[curve.name]
        drawing.polyline(points, f"stroke-{colour}", curve.name, 0.6 if wide > 2 else 1.0, wide)
        if curve.name == "validation":
            for (step, value), (x, y) in zip(curve.points, points, strict=True):
                drawing.rectangle(
                    x - 3, y - 3, 6, 6, f"fill-{colour}", f"update {step}: {value:.4g}", radius=3
                )
