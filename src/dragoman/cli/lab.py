"""`dragoman lab`: experiments that try the claims of the paper, and of what is written about it."""

import importlib
import site
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman import __version__
from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, option_name, settings_from
from dragoman.system.errors import DragomanError

FRAME = Path("lab/frame/experiment.py")


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


def lab(given: Given) -> None:
    """Run an experiment, or all that have no result yet, and print their verdicts.

    Raises `DragomanError` for a name that does not exist, where there is no lab, and if an experiment cannot
    run; of all of them, when the others have run.
    """
    asked = settings_from(Lab, given)
    catalogue, report = load("catalogue"), load("report")
    if asked.listed:
        print(catalogue.listing())
        return
    chosen = catalogue.experiments() if asked.name is None else [catalogue.experiment(asked.name)]
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.name is not None:
        run(chosen[0], asked, report)
        return
    failed = []
    for number, experiment in enumerate(chosen, 1):
        if report.has_result(asked.out, experiment.name, asked.quick):
            say(f"{experiment.name} has a result in {asked.out}.")
            continue
        say(f"Experiment {number} of {len(chosen)}: {experiment.name}.")
        try:
            run(experiment, asked, report)
        except DragomanError as error:  # an optional package is missing: the others can run
            say(f"{experiment.name}: {error}")
            failed.append(experiment.name)
    if failed:
        raise DragomanError(f"These experiments have no result: {', '.join(failed)}.")


def run(experiment: Any, asked: Lab, report: Any) -> None:
    """Run an experiment, write its files, and print its verdict."""
    from dragoman.pipeline.passport import command, passport

    began = time.perf_counter()
    result = experiment.run(asked.quick)
    seconds = time.perf_counter() - began
    made = passport(command(), __version__, {})
    record = report.content(experiment, result, asked.quick, seconds, made)
    report.write_result(asked.out, experiment, result, record)
    verdict = f"In the quick form: {result.verdict}" if asked.quick else report.capitalised(result.verdict)
    say(f"The page is {asked.out / experiment.name}.md; its picture and its numbers are beside it.")
    print(f"{experiment.claim.claim}\n{result.because}\n{verdict}.", flush=True)


def load(part: str) -> Any:
    """A module of the lab's frame. Raises `DragomanError` where there is no lab.

    The lab is a program beside the package, which is run from here and not imported by any module.
    """
    root = str(lab_root())
    if root not in sys.path:
        sys.path.insert(0, root)
    return importlib.import_module(f"lab.frame.{part}")


def lab_root() -> Path:
    """The folder that has the lab: the checkout that this package is in, or the data of the environment, of
    `pip install --target` or of `--user`. The current folder may be anybody's.

    Raises `DragomanError` where none has it.
    """
    installed = Path(sys.prefix), Path(__file__).parents[2], Path(site.getuserbase())
    places = Path(__file__).parents[3], *(place / "share" / "dragoman" for place in installed)
    for root in places:
        if (root / FRAME).is_file():
            return root
    raise DragomanError(
        f"There is no lab in {' or '.join(map(str, places))}. It is a folder of Dragoman's repository: "
        "install Dragoman from a checkout."
    )


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
