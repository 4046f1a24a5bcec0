"""The pages of the lab: an experiment's claim, its result if the repository has one, and its code."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from dragoman_paper.lab.frame.catalogue import experiments
from dragoman_paper.lab.frame.experiment import SECTIONS, Experiment
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
    index = page("Experiments", INTRODUCTION, counts(root, found), *sections(root, found))
    about = lines_of_code()
    return {"index": index} | {
        each.name: ORPHAN + experiment_page(root, each, about.get(each.name, [])) for each in found
    }


def counts(root: Path, found: Sequence[Experiment]) -> str:
    """How many experiments have each verdict."""
    verdicts = [verdict(root, each) or "" for each in found]
    conditional = sum(each.startswith("holds only") for each in verdicts)
    return (
        f"Of the {len(found)} claims {verdicts.count('holds')} hold, {conditional} hold only under a "
        f"condition, {verdicts.count('does not hold')} do not hold, and "
        f"{verdicts.count('is not decided')} are not decided."
    )


def sections(root: Path, found: Sequence[Experiment]) -> Iterator[str]:
    """A heading and a table for each section of the paper."""
    for section, group in groupby(found, lambda each: each.claim.section):
        rows = [
            [
                f"[{escaped(each.claim.title)}]({each.name}.md)",
                verdict(root, each) or "not run here",
                escaped(each.claim.claim),
            ]
            for each in group
        ]
        yield f"(experiments-{section})=\n## {section} {SECTIONS[section]}"
        yield table(("experiment", "verdict", "claim"), rows)


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
    file = f"src/dragoman_paper/lab/{experiment.name.replace('-', '_')}.py"
    section = experiment.claim.section
    place = f"[Experiments](index.md) › [Section {section}](#experiments-{section})"
    place += f" · the lines of code that it is about: {'; '.join(about)}" * bool(about)
    code = (
        f"## The code\n\n```sh\ndragoman lab {experiment.name}\n```\n\n"
        f"```{{literalinclude}} /../{file}\n:language: python\n:caption: {file}\n```\n"
    )
    if path.exists():
        picture, title = f"{experiment.name}.svg", experiment.claim.title
        found = escaped(f"{experiment.claim.claim} Verdict: {verdict(root, experiment)}.")
        heading, _, text = path.read_text(encoding="utf-8").partition("\n")
        text = text.replace(
            f"![{title}]({picture})", f"![{title}. {found}](../../../experiments/lab/{picture})"
        )
        return f"{heading}\n\n{place}\n{text.rstrip()}\n\n{code}"
    claim = experiment.claim
    return page(
        claim.title,
        place,
        f"Section {claim.section} of the paper, {SECTIONS[claim.section].lower()}. Claimed by "
        f"{escaped(claim.claimed_by)}:",
        f"> {escaped(claim.claim)}",
        escaped(experiment.method),
        "The repository has no result of this experiment yet.",
        code,
    )
