"""Runs as people look at them: a list with states and scores, and curves, from the files in their folders alone."""

import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.table import Column, Table

from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write
from dragoman.system.toml import read_toml
from dragoman.training.log import events

CURVES = {
    "loss": (("train", "loss"), ("validation", "loss")),
    "negative log-likelihood": (("train", "nll"), ("validation", "nll")),
    "BLEU": (("validation", "bleu"),),
    "learning rate": (("train", "learning_rate"),),
    "norm of the gradient": (("train", "gradient_norm"),),
    "target tokens a second": (("train", "tokens_per_second"),),
}
"""What is drawn: by the name of a picture, the events and the numbers of the log."""


@dataclass(frozen=True)
class RunState:
    """A run at a glance."""

    folder: Path
    state: str
    """`finished`, `training` (a process holds its lock) or `stopped`."""
    step: int
    updates: int
    minutes: float
    validation: dict[str, float]
    """The best validation's scores; of a finished run, those of the model that was kept."""
    test: str
    """The first score on the test data, as sacreBLEU writes it, if there is one."""


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The events of a run's log. Raises `DragomanError` where there is none."""
    try:
        (folder / "log.jsonl").open().close()
    except OSError as error:
        raise DragomanError(f"{folder} has no log that can be read ({error.strerror}); is it a run's folder?") from error
    return events(folder / "log.jsonl")


def is_locked(folder: Path) -> bool:
    """Whether a process is training in the folder; in one that may only be read, which cannot be asked, nobody is."""
    if not (folder / ".lock").exists() or not os.access(folder / ".lock", os.W_OK):
        return False
    try:
        with FileLock(folder / ".lock").acquire(timeout=0):
            return False
    except Timeout:
        return True


def state_of(folder: Path) -> RunState:
    """What the files of a run's folder say. Raises `DragomanError` where they cannot be read."""
    try:
        return _state_of(folder, read_toml(folder / "recipe.toml"))
    except DragomanError:
        raise
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise DragomanError(f"{folder} is no run's folder, or damaged ({error!r}).") from error


def _state_of(folder: Path, recipe: dict[str, Any]) -> RunState:
    """`state_of`, for files that are as a run writes them."""
    lines = events(folder / "log.jsonl")
    validations = [line for line in lines if line["event"] == "validation"]
    best_by = recipe["training"]["best_by"]
    best = max(validations, key=lambda line: (line["bleu"] * (best_by == "bleu"), -line["loss"]), default={})
    result = json.loads((folder / "result.json").read_text()) if (folder / "result.json").exists() else {}
    kept = result.get("validation", best)
    tested = result.get("test", [])
    return RunState(
        folder=folder,
        state="finished" if result else "training" if is_locked(folder) else "stopped",
        step=result.get("updates", lines[-1]["step"] if lines else 0),
        updates=recipe["training"]["updates"],
        minutes=result.get("minutes", validations[-1]["minutes"] if validations else 0.0),
        validation={name: float(kept[name]) for name in ("loss", "nll", "perplexity", "bleu") if name in kept},
        test=f"{tested[0]['name']} = {tested[0]['value']:.2f}" if tested else "",
    )


def runs_under(folder: Path, say: Callable[[str], None]) -> list[RunState]:
    """The runs in a folder and in those below it, by name; `say` hears of those that cannot be read. Raises `DragomanError` for no run."""
    found = []
    for path in sorted(path.parent for path in folder.glob("**/recipe.toml") if (path.parent / "data").is_dir()):
        try:
            found.append(state_of(path))
        except DragomanError as error:
            say(str(error))
    if not found:
        raise DragomanError(f"There is no run in {folder}: no folder there holds a recipe.toml and data.")
    return found


def runs_table(states: list[RunState]) -> Table:
    """The runs, for people."""
    table = Table(Column("run", no_wrap=True), "state", "update", "minutes", "loss", "BLEU", "test", caption="Loss and BLEU: validation.")
    for run in states:
        scores = [f"{run.validation[name]:.{digits}f}" if name in run.validation else "" for name, digits in (("loss", 3), ("bleu", 2))]
        table.add_row(str(run.folder), run.state, f"{run.step:,} of {run.updates:,}", f"{run.minutes:.1f}", *scores, run.test)
    return table


def as_json(run: RunState) -> str:
    """One line of JSON."""
    return json.dumps(asdict(run), default=str)


def points(folder: Path) -> list[dict[str, Any]]:
    """What is drawn of a run, one row a point: picture, curve, step, value."""
    rows = []
    for line in read_log(folder):
        for picture, curves in CURVES.items():
            rows += [
                {"picture": picture, "curve": event, "step": line["step"], "value": line[number]}
                for event, number in curves
                if line["event"] == event and number in line
            ]
    return rows


def plot(folder: Path, out: Path) -> None:
    """Draw the curves of a run as PNG, SVG or HTML, by the file's suffix, from its log alone.

    Raises `DragomanError` for another suffix, a log without a line, and where the extra `plot` is not installed.
    """
    if out.suffix not in {".png", ".svg", ".html"}:
        raise DragomanError(f"{out} is no picture that can be drawn: its name has to end in .png, .svg or .html.")
    rows = points(folder)
    if not rows:
        raise DragomanError(f"The log of {folder} has no line yet; there is nothing to draw.")
    if not all(map(importlib.util.find_spec, ("altair", "vl_convert"))):
        raise DragomanError("Drawing needs two packages more: pip install 'dragoman[plot]'")
    import altair

    pictures = [
        altair.Chart(altair.Data(values=[row for row in rows if row["picture"] == picture]), title=picture, width=360, height=180)
        .mark_line(point={"size": 12})
        .encode(
            x=altair.X("step:Q", title="update"),
            y=altair.Y("value:Q", title=None, scale=altair.Scale(zero=False)),
            color=altair.Color("curve:N", title=None, scale=altair.Scale(domain=["train", "validation"], range=["#4c78a8", "#e45756"])),
        )
        for picture in CURVES
        if any(row["picture"] == picture for row in rows)
    ]
    chart = altair.concat(*pictures, columns=2, title=str(folder)).resolve_scale(y="independent")
    with atomic_write(out) as new:
        chart.save(str(new), scale_factor=2.0)
