"""`dragoman parse-f1`: how well a parser's trees agree with a treebank's."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.console import warn
from dragoman.cli.parsing import Arguments, Command, refuse_missing_folder, refuse_replacing, settings_from
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write

if TYPE_CHECKING:
    from dragoman_paper.treebank.bracketing import Bracketing
    from dragoman_paper.treebank.trees import Tree


@dataclass(frozen=True)
class ParseF1:
    """Score parse trees by labelled bracketing, as EVALB does with COLLINS.prm."""

    hypotheses: Path
    """The symbols that `dragoman translate` has written for the words of the gold trees, or other trees."""
    gold: Path
    """The gold trees in brackets, one per line, plain or gzip."""
    bracketed: bool = False
    """The first file has trees in brackets, like the gold trees, for example from another parser."""
    output: Path | None = None
    """Write the scored trees to this file in brackets, with the parts of speech of the gold trees, so
    that EVALB deletes the same punctuation from both."""
    gold_output: Path | None = None
    """Write the gold trees to this file as they were scored. EVALB needs them beside those of --output: it
    counts an outermost bracket without a label."""


def parse_f1(arguments: Arguments) -> None:
    """Read both files, repair what is ill-formed, and print the scores."""
    settings = settings_from(ParseF1, arguments)
    outputs = {"--output": settings.output, "--gold-output": settings.gold_output}
    for option, path in outputs.items():
        if path is not None:
            refuse_missing_folder(option, path)
            refuse_replacing(option, path, settings.hypotheses, settings.gold)
    if (
        settings.output
        and settings.gold_output
        and settings.output.resolve() == settings.gold_output.resolve()
    ):
        raise DragomanError(f"--output and --gold-output are both {settings.output}; give two files.")
    from dragoman.text.lines import read_lines
    from dragoman_paper.treebank.bracketing import bracketing_by_length
    from dragoman_paper.treebank.trees import read_trees

    gold = list(read_trees(read_lines(settings.gold), str(settings.gold)))
    lines = list(read_lines(settings.hypotheses))
    repairs: list[Counter[str]] = []
    if settings.bracketed:
        trees = list(read_trees(lines, str(settings.hypotheses)))
    else:
        refuse_trees(lines, settings.hypotheses)
        trees, repairs = restore_all(lines, gold)
        if not any("(" in line for line in lines):
            warn(f"{settings.hypotheses} has no bracket; it has to hold symbols such as (S (NP PRP )NP )S.")
    counts = bracketing_by_length(trees, gold)
    if not counts["all"].gold:
        raise DragomanError(
            f"{settings.gold} has no constituent with a word that counts; nothing can be scored."
        )
    scored = [replace(tree, leaves=other.leaves) for tree, other in zip(trees, gold, strict=True)]
    for path, written in zip(outputs.values(), (scored, gold), strict=True):
        if path is not None:
            with atomic_write(path) as new:
                new.write_text("".join(f"{tree}\n" for tree in written), "utf-8", newline="\n")
    print(f"F1 = {counts['all'].f1:.2f}  [EVALB's rules, COLLINS.prm]\n\n{score_table(counts)}")
    if not settings.bracketed:
        print(f"\n{describe_repairs(repairs)}")


def refuse_trees(lines: list[str], path: Path) -> None:
    """Raise `DragomanError` if the first line is a tree in brackets and no line of symbols."""
    from dragoman_paper.treebank.trees import read_tree

    try:
        read_tree(next(iter(lines), ""))
    except DragomanError:
        return
    raise DragomanError(
        f"{path} has trees in brackets, and a parser's symbols were expected; add --bracketed."
    )


def restore_all(lines: list[str], gold: list["Tree"]) -> tuple[list["Tree"], list[Counter[str]]]:
    """The trees of a model's lines for the words of the gold trees, and the repairs of each.

    Raises `DragomanError` for different numbers of lines.
    """
    from dragoman_paper.treebank.linearise import restore

    if len(lines) != len(gold):
        raise DragomanError(
            f"Lines of symbols: {len(lines)}, gold trees: {len(gold)}; line n has to belong to line n."
        )
    restored = [restore(line, tree.words) for line, tree in zip(lines, gold, strict=True)]
    return [tree for tree, _ in restored], [repairs for _, repairs in restored]


def score_table(counts: dict[str, "Bracketing"]) -> str:
    """A line for the sentences of each length."""
    rows = [f"{'words':<10}{'sentences':>10}{'recall':>8}{'precision':>11}{'F1':>8}{'complete':>10}"]
    for name, count in counts.items():
        if count.sentences:
            complete = 100 * count.complete / count.sentences
            scores = f"{count.recall:>8.2f}{count.precision:>11.2f}{count.f1:>8.2f}{complete:>10.2f}"
            rows.append(f"{name:<10}{count.sentences:>10,}{scores}")
    return "\n".join(rows)


def describe_repairs(repairs: list[Counter[str]]) -> str:
    """How many lines were ill-formed, and how."""
    ill_formed = sum(map(bool, repairs))
    total = sum(repairs, Counter[str]())
    kinds = "; ".join(f"{kind}: {count:,}" for kind, count in total.most_common())
    details = f": {kinds}" if kinds else ""
    return f"{ill_formed:,} of {len(repairs):,} lines were ill-formed and repaired{details}."


COMMAND = Command(
    "parse-f1",
    "Score parse trees by labelled bracketing (EVALB).",
    parse_f1,
    ParseF1,
    example="dragoman parse-f1 test.symbols test.ptb",
    arguments="HYPOTHESES GOLD",
    positional=("hypotheses", "gold"),
    groups={"options": ("hypotheses", "gold", "bracketed", "output")},
    metavars={"hypotheses": "HYPOTHESES", "gold": "GOLD"},
)
