"""`dragoman linearise`: a treebank as the text files of a parallel corpus."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, refuse_replacing, settings_from
from dragoman.system.errors import DragomanError
from dragoman.system.files import atomic_write
from dragoman.system.wording import counted


@dataclass(frozen=True)
class Linearise:
    """Write the words of parse trees, and the trees as symbols, to train a parser on."""

    trees: Path
    """A treebank in brackets, one tree per line, plain or gzip."""
    source: Path
    """Write the words of each tree to this file."""
    target: Path
    """Write the symbols of each tree to this file: (S (NP PRP )NP (VP VBZ )VP )S."""
    tags: bool = True
    """Write the part of speech of each word. A word without one is written as XX."""


def linearise(arguments: Arguments) -> None:
    """Write the words and the symbols of the trees."""
    settings = settings_from(Linearise, arguments)
    refuse_replacing("--source", settings.source, settings.trees)
    refuse_replacing("--target", settings.target, settings.trees)
    if settings.source.resolve() == settings.target.resolve():
        raise DragomanError(f"--source and --target are both {settings.source}; give two files.")
    for path in (settings.source, settings.target):  # in other verbs these options name files to read
        if path.is_file():
            raise DragomanError(f"{path} exists already, and it would be replaced; give another name.")
    from dragoman.text.lines import read_lines
    from dragoman_paper.treebank.linearise import linearise as symbols
    from dragoman_paper.treebank.trees import read_trees

    count = 0
    with (
        atomic_write(settings.source) as source,
        atomic_write(settings.target) as target,
        source.open("w", encoding="utf-8", newline="\n") as words,
        target.open("w", encoding="utf-8", newline="\n") as brackets,
    ):
        for tree in read_trees(read_lines(settings.trees), str(settings.trees)):
            words.write(" ".join(tree.words) + "\n")
            brackets.write(symbols(tree, settings.tags) + "\n")
            count += 1
    say(f"{settings.source} has the words of {counted(count, 'tree')}, and {settings.target} their symbols.")


COMMAND = Command(
    "linearise",
    "Write a treebank as text files to train a parser on.",
    linearise,
    Linearise,
    example="dragoman linearise train.ptb -s train.words -t train.brackets",
    arguments="TREES -s FILE -t FILE",
    positional=("trees",),
    groups={"options": ("trees", "source", "target", "tags")},
    metavars={"trees": "TREES"},
)
