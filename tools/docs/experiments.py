"""The pages of the lab: an experiment's claim, its result if the repository has one, and its code."""

import json
from pathlib import Path

from lab.frame.catalogue import experiments
from lab.frame.experiment import SECTIONS, Experiment
from tools.docs.markdown import escaped, page, table
from tools.docs.paper_map import read_map

INTRODUCTION = """\
Each experiment tests one claim of the paper, of notes and tutorials, or of another toolkit, and gives a
verdict. [](../../lab.md) says how to run them.
"""
ORPHAN = "---\norphan: true\n---\n\n"  # the index lists them, the sidebar of every page does not


def pages(root: Path) -> dict[str, str]:
    """The pages by their names; `root` is the folder of the repository."""
    found = experiments()
    rows = [
        [
            each.claim.section,
            f"[{escaped(each.claim.title)}]({each.name}.md)",
            escaped(each.claim.claim),
            verdict(root, each) or "not run here",
        ]
        for each in found
    ]
    index = page(
        "Experiments",
        INTRODUCTION,
        table(("section", "experiment", "claim", "verdict"), rows),
    )
    about = lines_of_code()
    return {"index": index} | {
        each.name: ORPHAN + experiment_page(root, each, about.get(each.name, [])) for each in found
    }


def lines_of_code() -> dict[str, list[str]]:
    """For each experiment, links to the lines of the package that it is about, in the map of the paper."""
    links: dict[str, list[str]] = {}
    for name, item in read_map().items():
        for experiment in item.lab:
            links.setdefault(experiment, []).append(f"[{escaped(item.what)}](#paper-{name})")
    return links


def result_file(root: Path, experiment: Experiment, suffix: str) -> Path:
    """A file of the result that the repository has."""
    return root / "experiments" / "lab" / f"{experiment.name}.{suffix}"


def verdict(root: Path, experiment: Experiment) -> str | None:
    """The verdict, if the repository has a result."""
    path = result_file(root, experiment, "json")
    return json.loads(path.read_text(encoding="utf-8"))["verdict"] if path.exists() else None


def experiment_page(root: Path, experiment: Experiment, about: list[str]) -> str:
    """The page of an experiment: its result as the lab writes it, or its claim, then its code.

    `about` are links to the lines of the package that it is about.
    """
    path = result_file(root, experiment, "md")
    file = f"lab/{experiment.name.replace('-', '_')}.py"
    package = f"What it is about, beside the lines of the package: {'; '.join(about)}.\n\n" if about else ""
    code = (
        f"## The code\n\n{package}```sh\ndragoman lab {experiment.name}\n```\n\n"
        f"```{{literalinclude}} /../{file}\n:language: python\n:caption: {file}\n```\n"
    )
    if path.exists():
        picture = f"{experiment.name}.svg"
        text = path.read_text(encoding="utf-8").replace(
            f"({picture})", f"(../../../experiments/lab/{picture})"
        )
        return f"{text.strip()}\n\n{code}"
    claim = experiment.claim
    return page(
        claim.title,
        f"Section {claim.section} of the paper, {SECTIONS[claim.section].lower()}. Claimed by "
        f"{escaped(claim.claimed_by)}:",
        f"> {escaped(claim.claim)}",
        escaped(experiment.method),
        "The repository has no result of this experiment yet.",
        code,
    )
