"""A list of runs with states and scores, and curves of a run, read from their folders."""

import importlib.util
import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout
from rich.table import Column, Table

from dragoman.pipeline.passport import describe_commit, read_passports
from dragoman.pipeline.result import read_run_result
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write
from dragoman.system.toml import overlay, read_toml, section
from dragoman.text.settings import DataSettings, Languages
from dragoman.training.curves import CURVES, nothing_to_draw
from dragoman.training.log import read_events
from dragoman.training.settings import TrainingSettings

if TYPE_CHECKING:
    import altair

logger = logging.getLogger(__name__)
FORMATS: dict[str, Literal["png", "svg", "html"]] = {".png": "png", ".svg": "svg", ".html": "html"}
"""Of pictures, by the ends of their names."""


@dataclass(frozen=True)
class RunState:
    """A row of the list of runs."""

    folder: Path
    state: str
    """`finished`, `training` (a process holds its lock) or `stopped`."""
    step: int
    updates: int
    minutes: float
    validation: dict[str, float]
    """Scores of the best validation; of a finished run, those of the model that was kept."""
    test: str
    """The first score on the test data, as sacreBLEU writes it; empty without one."""
    languages: Languages
    pairs: list[Languages]
    """The pairs of languages of a model of several; of one that was adapted, those of its text."""
    passports: list[dict[str, Any]]
    """Where it was trained, one for each start of the training; none for a run of an earlier version."""


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The events of a run's log. Raises `DragomanError` if there is no log."""
    try:
        (folder / "log.jsonl").open().close()
    except OSError as error:
        raise DragomanError(
            f"{folder}/log.jsonl cannot be read ({error.strerror}); give the folder of a run."
        ) from error
    return read_events(folder / "log.jsonl")


def is_locked(folder: Path) -> bool:
    """Whether a process is training in the folder. A read-only folder counts as not locked."""
    if not (folder / ".lock").exists() or not os.access(folder / ".lock", os.W_OK):
        return False
    try:
        with FileLock(folder / ".lock").acquire(timeout=0):
            return False
    except Timeout:
        return True


def state_of(folder: Path) -> RunState:
    """The state of a run. Raises `DragomanError` if a file of its folder is missing or damaged."""
    path = folder / "recipe.toml"
    recipe = read_toml(path)
    training = overlay(TrainingSettings(), section(recipe, "training", path), f"{path} [training]")
    data = overlay(DataSettings(), section(recipe, "data", path), f"{path} [data]")
    if training.updates is None:
        raise DragomanError(f"{path} has no updates in [training]; it is not as a run writes it.")
    if (folder / "result.json").exists():
        result, test = read_run_result(folder), ""
        if result.test:
            test = f"{result.test[0].name} = {result.test[0].value:.2f}"
        scores = scores_of(result.validation)
        about = ("finished", result.updates, training.updates, result.minutes, scores, test)
    else:
        events = read_events(folder / "log.jsonl")
        validations = [event for event in events if event["event"] == "validation"]
        state = "training" if is_locked(folder) else "stopped"
        step, minutes = events[-1]["step"] if events else 0, 0.0
        if validations:
            minutes = float(validations[-1].get("minutes", 0))
        scores = scores_of(best_of(validations, training.best_by))
        about = (state, step, training.updates, minutes, scores, "")
    return RunState(folder, *about, data.languages, data.pairs, read_passports(folder))


def best_of(validations: Sequence[dict[str, Any]], best_by: str) -> dict[str, Any]:
    """The best of a log's validations, by BLEU or loss; empty without any."""

    def goodness(event: dict[str, Any]) -> tuple[float, float]:
        return (event.get("bleu", 0.0) if best_by == "bleu" else 0.0), -event.get("loss", math.inf)

    return max(validations, key=goodness, default={})


def scores_of(values: Mapping[str, Any]) -> dict[str, float]:
    """The scores of a validation among other values."""
    return {name: float(values[name]) for name in ("loss", "nll", "perplexity", "bleu") if name in values}


def runs_under(folder: Path) -> list[RunState]:
    """The runs in a folder and below it, by name. A run may be a symbolic link; no other link is followed.

    Logs those that cannot be read. Raises `DragomanError` if there is no run.
    """
    if folder.is_file():
        raise DragomanError(f"{folder} is a file; give the folder that has the runs.")
    if not folder.is_dir():
        raise DragomanError(f"There is no folder {folder}.")
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            logger.info(f"{path} cannot be read: permission denied.")
    states, damaged = [], 0
    recipes = (recipe for pattern in ("recipe.toml", "**/*/recipe.toml") for recipe in folder.glob(pattern))
    for path in sorted({recipe.parent for recipe in recipes if (recipe.parent / "data").is_dir()}):
        try:
            states.append(state_of(path))
        except (DragomanError, OSError) as error:
            logger.info(str(error))
            damaged += 1
    if damaged and not states:
        raise DragomanError(f"No run in {folder} can be read; damaged: {damaged}.")
    if not states:
        raise DragomanError(f"There is no run in {folder}: no folder there has a recipe.toml and data.")
    return states


def runs_table(states: list[RunState]) -> Table:
    """The runs as a table for a terminal."""
    table = Table(
        Column("run", no_wrap=True),
        "languages",
        "state",
        "update",
        "minutes",
        "loss",
        "BLEU",
        "test",
        "date",
        "version",
        "machine",
        caption="Loss and BLEU: validation. Date, version and machine: the last start of the training.",
    )
    for run in states:
        scores = [
            f"{run.validation[name]:.{digits}f}" if name in run.validation else ""
            for name, digits in (("loss", 3), ("bleu", 2))
        ]
        table.add_row(
            str(run.folder),
            ", ".join(f"{pair.source} → {pair.target}" for pair in run.pairs or [run.languages]),
            run.state,
            f"{run.step:,} of {run.updates:,}",
            f"{run.minutes:.1f}",
            *scores,
            run.test,
            *trained_with(run),
        )
    return table


def trained_with(run: RunState) -> tuple[str, str, str]:
    """Date, version with commit, and machine of the last start of a training; empty if they are unknown."""
    if not run.passports:
        return "", "", ""
    last = run.passports[-1]
    date, version, machine = (str(last.get(name, "")) for name in ("date", "version", "machine"))
    return date, f"{version}{describe_commit(last)}", machine


def as_json(run: RunState) -> str:
    """A run as one line of JSON."""
    return json.dumps(asdict(run), default=str)


def points(folder: Path) -> list[dict[str, Any]]:
    """The points of a run's curves: `chart`, `curve`, `step` and `value` of each."""
    rows = []
    for line in read_log(folder):
        for chart, curves in CURVES.items():
            rows += [
                {"chart": chart, "curve": event, "step": line["step"], "value": line[number]}
                for event, number in curves
                if line["event"] == event and number in line
            ]
    return rows


def plot(folder: Path, out: Path) -> None:
    """Draw the curves of a run as PNG, SVG or HTML, by the file's suffix.

    Raises `DragomanError` for another suffix, and as `chart`.
    """
    if out.suffix.lower() not in FORMATS:
        raise DragomanError(f"{out} cannot be drawn: its name must end in .png, .svg or .html.")
    curves = chart(folder)
    with atomic_write(out) as new:
        curves.save(str(new), format=FORMATS[out.suffix.lower()], scale_factor=2.0)


def chart(folder: Path) -> "altair.ConcatChart":
    """The curves of a run as a chart of Altair.

    Raises `DragomanError` for an empty log, and if the extra `plot` is not installed.
    """
    rows = points(folder)
    if not rows:
        raise nothing_to_draw(folder)
    if not all(map(importlib.util.find_spec, ("altair", "vl_convert"))):
        raise DragomanError("Drawing needs two more packages: pip install 'dragoman[plot]'")
    import altair

    parts = [
        altair.Chart(
            altair.Data(values=[row for row in rows if row["chart"] == label]),
            title=label,
            width=360,
            height=180,
        )
        .mark_line(point={"size": 12})
        .encode(
            x=altair.X("step:Q", title="update"),
            y=altair.Y("value:Q", title=None, scale=altair.Scale(zero=False)),
            color=altair.Color(
                "curve:N",
                title=None,
                scale=altair.Scale(domain=["train", "validation"], range=["#4c78a8", "#e45756"]),
            ),
        )
        for label in CURVES
        if any(row["chart"] == label for row in rows)
    ]
    name = os.fsencode(folder).decode("utf-8", "replace")
    title = name.replace("<", "‹")  # altair writes it into a script of the HTML as it is
    return altair.concat(*parts, columns=2, title=title).resolve_scale(y="independent")
