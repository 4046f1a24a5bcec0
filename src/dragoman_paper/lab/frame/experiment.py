"""What an experiment states before it runs, and what it gives back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.inspection.views.drawing import Drawing

Row = Mapping[str, str | int | float]
"""A row of a table: cells by the names of their columns, with units."""

SECTIONS = {
    "3.1": "Encoder and decoder stacks",
    "3.2": "Attention",
    "3.2.1": "Scaled dot-product attention",
    "3.2.2": "Multi-head attention",
    "3.2.3": "Applications of attention",
    "3.3": "Position-wise feed-forward networks",
    "3.4": "Embeddings and softmax",
    "3.5": "Positional encoding",
    "4": "Why self-attention",
    "5.1": "Training data and batching",
    "5.2": "Hardware and schedule",
    "5.3": "Optimizer",
    "5.4": "Regularization",
    "6.1": "Machine translation",
    "6.2": "Model variations",
    "6.3": "English constituency parsing",
}
"""The paper's sections, in its order."""


@dataclass(frozen=True)
class Claim:
    """What is claimed. Each experiment has one, `CLAIM`. Raises `ValueError` for a section without a name."""

    title: str
    """A few words."""
    section: str
    """The paper's section that the claim is about."""
    claim: str
    """The claim, as a sentence that can be true or false."""
    claimed_by: str
    """The paper with the place, a kind of text, a toolkit."""
    topics: tuple[str, ...] = ()
    """The rows of lab/README.md that it answers, as W6."""

    def __post_init__(self) -> None:
        if self.section not in SECTIONS:
            raise ValueError(f"The section is {self.section!r}; there are: {', '.join(SECTIONS)}.")


VERDICTS = ("holds", "does not hold", "is not decided")
"""The verdicts that have no condition."""


@dataclass(frozen=True)
class Result:
    """What came out. Raises `ValueError` for another verdict than `verdict_of` gives."""

    tables: Mapping[str, Sequence[Row]]
    """All numbers, by the title of their table. The rows of a table have the same columns."""
    picture: Drawing
    verdict: str
    """`holds`, `holds only if` or `for` something, `does not hold`, or `is not decided`: see `verdict_of`."""
    because: str
    """The sentence that says why, with the numbers that decide."""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS and not self.verdict.startswith(
            ("holds only if ", "holds only for ")
        ):
            known = ", ".join((*VERDICTS, "holds only if …", "holds only for …"))
            raise ValueError(f"The verdict is {self.verdict!r}; there are: {known}.")


@dataclass(frozen=True)
class Experiment:
    """A file of the lab."""

    name: str
    """Of the file, with dashes."""
    claim: Claim
    method: str
    """What is computed: the file's docstring."""
    run: Callable[[bool], Result]
    """Run it; True is the quick form, of seconds."""
    path: Path


def verdict_of(true: bool, only_if: str = "", decided: bool = True) -> str:
    """The verdict on a claim that came out true, perhaps under a condition, or false.

    A condition that begins with "for" has no "if": it holds only for most queries.
    `decided` is False where the numbers show neither: the model to compare with has not learned, or the means
    of the seeds support a claim that some seeds contradict.
    """
    if not decided:
        return "is not decided"
    if not true:
        return "does not hold"
    if not only_if:
        return "holds"
    return f"holds only {only_if}" if only_if.startswith("for ") else f"holds only if {only_if}"
