"""The training of a run, read from its folder: curves, samples, and the schedule's formula (section 5.3)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dragoman.model.settings import ModelSettings
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, read_toml, section
from dragoman.training.log import read_events
from dragoman.training.schedule import describe_learning_rate, make_learning_rate
from dragoman.training.settings import TrainingSettings

CURVES = {
    "loss": (("train", "loss"), ("validation", "loss")),
    "negative log-likelihood": (("train", "nll"), ("validation", "nll")),
    "BLEU": (("validation", "bleu"),),
    "BLEU of the old text": (("validation", "replay_bleu"),),
    "learning rate": (("train", "learning_rate"),),
    "norm of the gradient": (("train", "gradient_norm"),),
    "target tokens per second": (("train", "tokens_per_second"),),
}
"""Titles of charts with their curves, each an event and a value of the log."""

MAX_POINTS = 500
MAX_SAMPLES = 60

T = TypeVar("T")


@dataclass(frozen=True)
class Curve:
    """A number of the log over the updates."""

    chart: str
    """What the number is, as `dragoman plot` calls it."""
    name: str
    """`train`, `validation`, or `schedule`: what the formula of the learning rate gives."""
    points: tuple[tuple[int, float], ...]
    """Update and value, at most 500 of them."""


@dataclass(frozen=True)
class ValidationSample:
    """A sentence of the validation data, as the model translated it at an update."""

    step: int
    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class Training:
    """What the log of a run says."""

    curves: tuple[Curve, ...]
    samples: tuple[ValidationSample, ...] | None
    """None where a server leaves them out."""
    schedule: str
    """The formula of the learning rate with the numbers of the run."""


def training_of(run: Path) -> Training | None:
    """The training of a run's folder; None without a log and a recipe, as in a model folder.

    Raises `DragomanError` if the recipe is not as a run writes it.
    """
    path = run / "recipe.toml"
    if not ((run / "log.jsonl").exists() and path.exists()):
        return None
    table, events = read_toml(path), read_events(run / "log.jsonl")
    model = overlay(ModelSettings(), section(table, "model", path), str(path))
    settings = overlay(TrainingSettings(), section(table, "training", path), str(path))
    logged = [
        Curve(
            chart,
            event,
            thinned([(entry["step"], entry[key]) for entry in events if has_number(entry, event, key)]),
        )
        for chart, curves in CURVES.items()
        for event, key in curves
    ]
    samples = [
        ValidationSample(
            event["step"], *(str(sample.get(key, "")) for key in ("source", "reference", "translation"))
        )
        for event in events
        for sample in listed(event.get("samples"))
        if isinstance(sample, dict)
    ]
    if settings.warmup_steps is None:
        raise DragomanError(f"{path} has no warmup_steps; it is not as a run writes it.")
    peak = section(table, "adaptation", path).get("peak_rate") if "adaptation" in table else None
    if not (peak is None or type(peak) in (int, float)):
        raise DragomanError(f"{path}: adaptation.peak_rate is not a number; it is not as a run writes it.")
    learning_rate = make_learning_rate(settings, model.d_model, peak)
    rates = [
        (step, float(f"{learning_rate(step):.7g}"))
        for curve in logged
        if curve.chart == "learning rate"
        for step, _ in curve.points
        if step > 0
    ]
    formula = describe_learning_rate(settings, model.d_model, peak)
    curves = [*logged, Curve("learning rate", "schedule", tuple(rates))]
    return Training(tuple(curve for curve in curves if curve.points), thinned(samples, MAX_SAMPLES), formula)


def required_training(run: Path) -> Training:
    """The training of a run. Raises `DragomanError` if the folder has no log, or an empty one."""
    training = training_of(run)
    if training is None:
        raise DragomanError(
            f"{run} has no log.jsonl and recipe.toml; give the folder of a run, not its model alone."
        )
    if not training.curves:
        raise nothing_to_draw(run)
    return training


def nothing_to_draw(run: Path) -> DragomanError:
    """The error for a log without numbers."""
    return DragomanError(
        f"The log of {run} has nothing to draw: no update has been logged yet, or it is damaged."
    )


def listed(value: object) -> list[object]:
    """The value if it is a list, otherwise an empty one."""
    return value if isinstance(value, list) else []


def has_number(event: dict[str, object], name: str, key: str) -> bool:
    """Whether a line of the log has a finite number for a curve."""
    value = event.get(key)
    return event["event"] == name and isinstance(value, int | float) and math.isfinite(value)


def thinned(points: Sequence[T], most: int = MAX_POINTS) -> tuple[T, ...]:
    """At most `most` of the points, evenly spaced, including the first and the last."""
    if len(points) <= most:
        return tuple(points)
    return tuple(points[round(place * (len(points) - 1) / (most - 1))] for place in range(most))
