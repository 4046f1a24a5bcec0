"""The figures by name: what each shows, and what it is drawn from. This module imports no torch."""

import difflib
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman.system.errors import DragomanError

Needs = Literal["nothing", "run", "words", "sentence"]

EXAMPLES = {"run": "dragoman figure {} runs/ende", "words": 'dragoman figure {} runs/ende "dog cat"'}
EXAMPLES["sentence"] = 'dragoman figure {} runs/ende "A man rides a bike."'


@dataclass(frozen=True)
class Figure:
    """A figure: its name, what it shows, where the paper has it, and what it is drawn from."""

    name: str
    shows: str
    of: str
    """The figure, table or section of the paper."""
    needs: Needs
    """`nothing`: a run is optional, and gives its sizes in place of the paper's base model."""
    options: tuple[str, ...] = ()
    """The options that choose a part of the model."""


FIGURES = (
    Figure("figure-1", "the layers of the model with shapes and parameters", "Figure 1", "nothing"),
    Figure("figure-2", "scaled dot-product and multi-head attention, step by step", "Figure 2", "nothing"),
    Figure(
        "figure-3",
        "one token's attention in all heads of a layer",
        "Figure 3",
        "sentence",
        ("layer", "query", "heads", "kind"),
    ),
    Figure(
        "figure-4",
        "all attention of a head, and one token's in two heads",
        "Figure 4",
        "sentence",
        ("layer", "query", "heads", "kind"),
    ),
    Figure(
        "figure-5",
        "the two heads that differ most, as lines",
        "Figure 5",
        "sentence",
        ("layer", "heads", "kind"),
    ),
    Figure(
        "head-comparison",
        "two heads as tables of weights, and how they differ in numbers",
        "Figure 5",
        "sentence",
        ("layer", "heads", "kind"),
    ),
    Figure(
        "query-key-value",
        "queries, keys and values of a head, as numbers",
        "section 3.2",
        "sentence",
        ("layer", "heads"),
    ),
    Figure(
        "attention-steps",
        "equation 1 in numbers for one query",
        "section 3.2.1",
        "sentence",
        ("layer", "heads", "query"),
    ),
    Figure(
        "layer-norm",
        "over which numbers layer and batch normalisation average",
        "section 3.1",
        "sentence",
        ("layer",),
    ),
    Figure("feed-forward", "hidden units that are zero, by layer and token", "section 3.3", "sentence"),
    Figure("softmax", "the likeliest next tokens of a step", "section 3.4", "sentence", ("step",)),
    Figure(
        "neighbours", "the nearest tokens in the embeddings of each word, by cosine", "section 3.4", "words"
    ),
    Figure("positions", "positions in both layouts, and their dot products", "section 3.5", "nothing"),
    Figure("complexity", "operations, sequential steps and path lengths of layers", "Table 1", "nothing"),
    Figure(
        "recurrence-paths", "paths between tokens with recurrence and with attention", "section 4", "nothing"
    ),
    Figure("training", "loss, learning rate, gradient norm and validation", "section 5.3", "run"),
    Figure("label-smoothing", "the target distribution of a token", "section 5.4", "nothing"),
    Figure(
        "decoding-steps",
        "each step: what the query attends to, and what it predicts",
        "section 6.1",
        "sentence",
        ("layer", "heads"),
    ),
)


OF_SENTENCES = ("figure-1", "complexity", "recurrence-paths")
"""Figures that need nothing, and use a sentence if there is one."""


def figure(name: str) -> Figure:
    """The figure of this name. Raises `DragomanError` for another name, with the nearest ones."""
    names = {entry.name: entry for entry in FIGURES}
    if name not in names:
        suggestions = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = (
            f"Did you mean {' or '.join(suggestions)}?" if suggestions else f"There are: {', '.join(names)}."
        )
        raise DragomanError(f"There is no figure {name!r}. {hint}")
    return names[name]


def names() -> str:
    """All names, in lines of at most 76 characters."""
    text = ", ".join(entry.name for entry in FIGURES)
    return textwrap.indent(textwrap.fill(text, 74, break_on_hyphens=False), "  ")


def listing() -> str:
    """A line for each figure: its name, what it shows, where the paper has it, and what it needs."""
    needs = {
        "nothing": "RUN is optional",
        "run": "needs RUN",
        "words": "needs RUN and words",
        "sentence": "needs RUN and a sentence",
    }
    return "\n".join(
        f"  {entry.name:<17}{entry.shows}\n{'':19}{entry.of}; {needs[entry.needs]}" for entry in FIGURES
    )


def refuse_missing(
    figure: Figure, run: Path | None, text: str | None, options: list[str], searches: list[str]
) -> None:
    """Raise `DragomanError` if a figure lacks its run or sentence, or has an option that it does not use.

    `options` choose a part of the model, `searches` are those of a search.
    """
    for option in options:
        if option not in figure.options:
            users = ", ".join(entry.name for entry in FIGURES if option in entry.options)
            raise DragomanError(f"{figure.name} does not use --{option}; it is for {users}.")
    translates = figure.needs == "sentence" or (figure.name == "figure-1" and text is not None)
    if searches and not translates:
        flag = "--" + searches[0].replace("_", "-")
        raise DragomanError(f"{figure.name} translates nothing, and {flag} is for a search; leave it out.")
    if text is not None and figure.needs in ("nothing", "run") and figure.name not in OF_SENTENCES:
        raise DragomanError(f"{figure.name} does not use a sentence; leave it out.")
    if figure.needs == "nothing":
        return
    example = EXAMPLES[figure.needs].format(figure.name)
    if run is None:
        raise DragomanError(f"{figure.name} is drawn from a run: {example}")
    if text is None and figure.needs != "run":
        what = "words" if figure.needs == "words" else "a sentence"
        raise DragomanError(f"{figure.name} is drawn for {what}: {example}")
