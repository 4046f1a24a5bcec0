"""The experiments: each file of the lab that is not its frame."""

import difflib
import importlib
from collections.abc import Iterator
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman_paper.lab.frame.experiment import SECTIONS, Experiment

LAB = Path(__file__).parents[1]


def names() -> list[str]:
    """The names of all experiments, in alphabetical order."""
    return sorted(path.stem.replace("_", "-") for path in LAB.glob("[a-z]*.py"))


def experiment(name: str) -> Experiment:
    """The experiment of this name. Raises `DragomanError` for another name, with the nearest ones."""
    known = names()
    if name not in known:
        suggestions = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = (
            f"Did you mean {' or '.join(suggestions)}?" if suggestions else "dragoman lab --list shows all."
        )
        raise DragomanError(f"There is no experiment {name!r}. {hint}")
    stem = name.replace("-", "_")
    module = importlib.import_module(f"dragoman_paper.lab.{stem}")
    return Experiment(name, module.CLAIM, module.__doc__ or "", module.run, LAB / f"{stem}.py")


def experiments() -> list[Experiment]:
    """All experiments, in the order of the paper's sections."""
    order = list(SECTIONS)
    return sorted(map(experiment, names()), key=lambda entry: (order.index(entry.claim.section), entry.name))


def listing() -> str:
    """A line for each experiment, below the title of its section."""
    return "\n".join(lines_of(experiments()))


def lines_of(experiments: list[Experiment]) -> Iterator[str]:
    """The lines of `listing`."""
    width = max((len(experiment.name) for experiment in experiments), default=0) + 2
    for section, title in SECTIONS.items():
        in_section = [experiment for experiment in experiments if experiment.claim.section == section]
        if in_section:
            yield f"{section} {title}"
            yield from (f"  {experiment.name:<{width}}{experiment.claim.title}" for experiment in in_section)
