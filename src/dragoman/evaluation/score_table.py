"""Scores of several test sets, as one table of text or as values for JSON. Strings only."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from dragoman.evaluation.compare import Comparison
from dragoman.evaluation.metrics import Score


@dataclass(frozen=True)
class SetScores:
    """The scores of a test set, alone and compared with a baseline's."""

    name: str
    lines: int
    scores: list[Score | Comparison]

    @property
    def alone(self) -> dict[str, Score]:
        """The scores by the names of their measures."""
        return {score.name: score for score in self.scores if isinstance(score, Score)}

    @property
    def compared(self) -> dict[str, Comparison]:
        """The comparisons by the names of their measures."""
        return {score.score.name: score for score in self.scores if isinstance(score, Comparison)}

    @property
    def values(self) -> dict[str, Any]:
        """What JSON has of it; the comparisons are left out where there is no baseline."""
        table = {
            "name": self.name,
            "lines": self.lines,
            "scores": [asdict(score) for score in self.alone.values()],
            "comparisons": [asdict(comparison) for comparison in self.compared.values()],
        }
        return table if self.compared else {name: table[name] for name in ("name", "lines", "scores")}


def score_table(results: Sequence[SetScores]) -> str:
    """A row for each test set, with the baseline's scores and the p-values in the rows under it.

    The signatures follow. Where the test sets have different ones, the sets are named.
    """
    names = list(dict.fromkeys(name for result in results for name in result.alone))
    rows = [["test set", "lines", *names]]
    for result in results:
        values = {name: f"{score.value:.2f}" for name, score in result.alone.items()}
        rows.append([result.name, f"{result.lines:,}", *(values.get(name, "") for name in names)])
        if compared := result.compared:
            others = {name: f"{comparison.baseline.value:.2f}" for name, comparison in compared.items()}
            p_values = {name: f"{comparison.p_value:.4f}" for name, comparison in compared.items()}
            rows.append(["  baseline", "", *(others.get(name, "") for name in names)])
            rows.append(["  p", "", *(p_values.get(name, "") for name in names)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        aligned = [f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append("  ".join([f"{name:<{widths[0]}}", *aligned]).rstrip())
    return "\n".join([*lines, "", *chain.from_iterable(signatures(results, name) for name in names)])


def signatures(results: Sequence[SetScores], name: str) -> list[str]:
    """The different signatures of a measure. If there are several, each with its test sets."""
    sets: dict[str, list[str]] = {}
    for result in results:
        if comparison := result.compared.get(name):
            sets.setdefault(comparison.score.signature, []).append(result.name)
        elif score := result.alone.get(name):
            sets.setdefault(score.signature, []).append(result.name)
    return [
        f"{name} [{signature}]" + (f" of {', '.join(names)}" if len(sets) > 1 else "")
        for signature, names in sets.items()
    ]
