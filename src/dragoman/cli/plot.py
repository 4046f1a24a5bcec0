"""`dragoman plot`: the curves of a run."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, refuse_missing_folder, refuse_replacing, settings_from


@dataclass(frozen=True)
class Plot:
    """Draw the curves of a run from its log: loss, BLEU, learning rate, gradient norm, speed."""

    run: Path
    """The run's folder."""
    out: Path
    """The picture: .png, .svg or .html."""


def plot(arguments: Arguments) -> None:
    """Draw the curves of a run."""
    settings = settings_from(Plot, arguments)
    refuse_missing_folder("--out", settings.out)
    refuse_replacing("--out", settings.out)
    from dragoman.pipeline.runs import plot as draw

    draw(settings.run, settings.out)
    say(f"{settings.out} shows the curves of {settings.run}.")


COMMAND = Command(
    "plot",
    "Draw the curves of a run, as PNG, SVG or HTML.",
    plot,
    Plot,
    example="dragoman plot runs/ende --out ende.svg",
    arguments="RUN -o FILE",
    groups={"options": ("run", "out")},
    metavars={"run": "RUN"},
)
