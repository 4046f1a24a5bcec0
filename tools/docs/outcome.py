"""The roles `{verdict}` and `{outcome}`: what an experiment of the lab has found, from its result file."""

import json
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxRole

LAB = Path(__file__).parents[2] / "experiments" / "lab"


class Verdict(SphinxRole):
    """`{verdict}NAME`, NAME in backticks: the verdict of the experiment NAME in a sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The words in italics; the page is made anew when the result changes."""
        self.env.note_dependency(str(LAB / f"{self.text}.json"))
        return [nodes.emphasis("", self.words())], []

    def words(self) -> str:
        """What is written."""
        return verdict(self.text)


class Outcome(Verdict):
    """`{outcome}NAME`: the verdict, and the sentences with the numbers that decide."""

    def words(self) -> str:
        """What is written."""
        return outcome(self.text)


@cache
def result(name: str) -> dict[str, str]:
    """The result of an experiment."""
    record: dict[str, str] = json.loads((LAB / f"{name}.json").read_text(encoding="utf-8"))
    return record


def verdict(name: str) -> str:
    """The verdict of an experiment."""
    return f"Verdict: {result(name)['verdict']}."


def outcome(name: str) -> str:
    """The verdict of an experiment, and the sentences that give the reason."""
    return f"{verdict(name)} {result(name)['because']}"
