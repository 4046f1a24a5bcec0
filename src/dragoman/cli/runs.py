"""`dragoman runs`: the runs in a folder with their state and scores."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.parsing import Arguments, Command, settings_from


@dataclass(frozen=True)
class Runs:
    """List runs with their state and scores."""

    folder: Path = Path("runs")
    """The folder that contains the runs; runs in the folders below it are listed too."""
    json: bool = False
    """Write one JSON object per run."""


def runs(arguments: Arguments) -> None:
    """List runs."""
    settings = settings_from(Runs, arguments)
    from dragoman.pipeline.runs import as_json, runs_table, runs_under
    from dragoman.system.terminal import Terminal

    states = runs_under(settings.folder)
    if settings.json:
        print("\n".join(map(as_json, states)))
    else:
        table = runs_table(states)
        console = Terminal(width=10_000, markup=False, emoji=False)  # names of folders are no markup
        console.width = console.measure(table).maximum  # as wide as it needs: nothing is cut
        console.print(table)


COMMAND = Command(
    "runs",
    "List runs with their state and scores.",
    runs,
    Runs,
    example="dragoman runs --json",
    arguments="[DIR]",
    positional=("folder",),
    groups={"options": ("folder", "json")},
    metavars={"folder": "DIR"},
)
