"""`dragoman paper`: a model beside the paper's figures, counted without PyTorch."""

import json
from dataclasses import dataclass

from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.system.options import check_options, option


@dataclass(frozen=True)
class Paper:
    """Compare a model with the paper: its parameters, its cost, and where its settings differ."""

    subject: str = "base"
    """A preset, a row of Table 3 (A1 … E), a recipe in TOML, or a run's folder."""
    vocabulary: int | None = option(None, at_least=1)
    """Tokens of the vocabulary; the default is the recipe's or run's, else the paper's 37,000."""
    length: int = option(25, at_least=1, at_most=2**20)
    """Tokens of a sentence, on either side, for which multiply-adds are counted."""
    updates: int | None = option(None, at_least=1)
    """Updates of the training; the default is the recipe's, else the paper's."""
    tokens: int | None = option(None, at_least=1)
    """Target tokens of an update, and as many source tokens; the default is the recipe's, else 25,000."""
    hours: float | None = option(None, at_least=0.01)
    """Hours of training, for the paper's estimate of its cost; known for base (12) and big (84)."""
    gpus: int = option(8, at_least=1)
    """Number of GPUs, for the same estimate."""
    json: bool = False
    """Write one JSON object."""

    def __post_init__(self) -> None:
        check_options(self)


def paper(arguments: Arguments) -> None:
    """Print the report."""
    settings = settings_from(Paper, arguments)
    from dragoman_paper.paper_map.page import pages
    from dragoman_paper.paper_map.report import as_table, report_on
    from dragoman_paper.paper_map.subject import subject_of

    subject = subject_of(settings.subject, settings.vocabulary)
    report = report_on(
        subject, settings.length, settings.updates, settings.tokens, settings.hours, settings.gpus
    )
    if settings.json:
        print(json.dumps(as_table(report), ensure_ascii=False))
        return
    from dragoman.system.terminal import Terminal

    console = Terminal(highlight=False, markup=False)
    for page in pages(report):
        console.print(page)


COMMAND = Command(
    "paper",
    "Compare a model with the paper: parameters, cost, differences.",
    paper,
    Paper,
    example="dragoman paper big",
    arguments="[PRESET | ROW | RECIPE.toml | RUN]",
    positional=("subject",),
    groups={
        "model": ("subject", "vocabulary", "length"),
        "cost of training": ("updates", "tokens", "hours", "gpus"),
        "output": ("json",),
    },
    metavars={"subject": "NAME"},
)
