"""`dragoman aer`: how far word alignments are from gold ones."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.system.errors import DragomanError


@dataclass(frozen=True)
class AlignmentErrorRate:
    """Print the alignment error rate of the links that dragoman align or another aligner has written."""

    alignments: Path
    """The alignments to score: source-target pairs, counted from 0, such as 0-0 1-2."""
    gold: Path
    """The gold alignments: 1-2 is a sure link, 1?2 or 1p2 a possible one."""
    one_indexed: bool = False
    """The gold alignments count the words from 1."""


def aer(arguments: Arguments) -> None:
    """Read both files and print the score."""
    settings = settings_from(AlignmentErrorRate, arguments)
    from dragoman.evaluation.alignment_error import alignment_error_rate, read_alignments
    from dragoman.text.lines import read_lines

    alignments = list(read_alignments(list(read_lines(settings.alignments)), str(settings.alignments)))
    gold = list(
        read_alignments(list(read_lines(settings.gold)), str(settings.gold), int(settings.one_indexed))
    )
    if any(alignment.possible - alignment.sure for alignment in alignments):
        raise DragomanError(
            f"{settings.alignments} has possible links, which only gold alignments have; the gold file is "
            "the second one."
        )
    print(alignment_error_rate(alignments, gold))


COMMAND = Command(
    "aer",
    "Score word alignments against gold ones.",
    aer,
    AlignmentErrorRate,
    example="dragoman aer test.align gold.align",
    arguments="ALIGNMENTS GOLD",
    positional=("alignments", "gold"),
    groups={"options": ("alignments", "gold", "one_indexed")},
    metavars={"alignments": "ALIGNMENTS", "gold": "GOLD"},
)
