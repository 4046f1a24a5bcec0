"""`dragoman lab`: experiments that try the claims of the paper, and of what is written about it."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman import __version__
from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, option_name, settings_from
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from dragoman_paper.lab.frame.experiment import Experiment


@dataclass(frozen=True)
class Lab:
    """Test a claim about the Transformer: numbers, a picture, and whether it holds."""

    name: str | None = None
    """The experiment, or all that have no result yet if none is named. --list shows them."""
    listed: bool = field(default=False, metadata=option_name("list"))
    """List the experiments by section of the paper."""
    quick: bool = False
    """Fewer sizes or updates: seconds instead of minutes."""
    out: Path = Path("results/lab")
    """The folder of the results: NAME.json, NAME.svg and NAME.md."""


def lab(arguments: Arguments) -> None:
    """Run an experiment, or all that have no result yet, and print their verdicts.

    Raises `DragomanError` for a name that does not exist, and if an experiment cannot run; of all of them,
    when the others have run.
    """
    settings = settings_from(Lab, arguments)
    from dragoman_paper.lab.frame import catalogue, report

    if settings.listed:
        print(catalogue.listing())
        return
    chosen = catalogue.experiments() if settings.name is None else [catalogue.experiment(settings.name)]
    settings.out.mkdir(parents=True, exist_ok=True)
    if settings.name is not None:
        run(chosen[0], settings)
        return
    failed = []
    for number, experiment in enumerate(chosen, 1):
        if report.has_result(settings.out, experiment.name, settings.quick):
            say(f"{experiment.name} has a result in {settings.out}.")
            continue
        say(f"Experiment {number} of {len(chosen)}: {experiment.name}.")
        try:
            run(experiment, settings)
        except DragomanError as error:  # an optional package is missing: the others can run
            say(f"{experiment.name}: {error}")
            failed.append(experiment.name)
    if failed:
        raise DragomanError(f"These experiments have no result: {', '.join(failed)}.")


def run(experiment: "Experiment", settings: Lab) -> None:
    """Run an experiment, write its files, and print its verdict."""
    from dragoman.pipeline.passport import command, passport
    from dragoman_paper.lab.frame import report

    began = time.perf_counter()
    result = experiment.run(settings.quick)
    seconds = time.perf_counter() - began
    origin = passport(command(), __version__, {})
    record = report.content(experiment, result, settings.quick, seconds, origin)
    report.write_result(settings.out, experiment, result, record)
    verdict = f"In the quick form: {result.verdict}" if settings.quick else report.capitalised(result.verdict)
    say(f"The page is {settings.out / experiment.name}.md; its picture and its numbers are beside it.")
    print(f"{experiment.claim.claim}\n{result.because}\n{verdict}.", flush=True)


COMMAND = Command(
    "lab",
    "Test the claims of the paper: numbers, a picture, a verdict.",
    lab,
    Lab,
    example="dragoman lab positions-are-linear --out results/lab",
    arguments="[NAME]",
    positional=("name",),
    groups={"experiment": ("name", "listed", "quick"), "output": ("out",)},
    metavars={"name": "NAME", "out": "DIR"},
)
