"""`dragoman data`: corpora of OPUS by name."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.system.errors import DragomanError
from dragoman.text.dataset_names import OpusName, is_opus, parse_opus


@dataclass(frozen=True)
class Data:
    """Show corpora of OPUS, with their sizes and licences, and download them as text files."""

    names: tuple[str, ...] = ()
    """Corpora such as opus:en-de/Tatoeba, or opus:en-de for a list of all in two languages."""
    out: Path | None = None
    """The folder for the texts. Without it nothing is downloaded."""


def data(arguments: Arguments) -> None:
    """Show the corpora, and download them if a folder is given.

    Raises `DragomanError` for wrong names, and as `packages` and `find_corpus`.
    """
    settings = settings_from(Data, arguments)
    names = [parse_name(name) for name in settings.names]
    if not names:
        raise DragomanError(
            "Name the corpora: dragoman data opus:en-de/Tatoeba --out corpora. A pair alone lists what there "
            "is: dragoman data opus:en-de"
        )
    from dragoman.text.named_datasets.archive_dataset import located
    from dragoman.text.named_datasets.opus import describe, find_corpus, packages

    out = settings.out
    for name in names:
        if not name.corpus:
            if out is not None:
                raise DragomanError(
                    f"{name} is all that OPUS has in two languages; name corpora to download, such as "
                    f"{name}/Tatoeba. `dragoman data {name}` lists them."
                )
            print_packages(name)
    wanted = {}
    for name in filter(lambda name: name.corpus, dict.fromkeys(names)):
        if out is not None and all(located(out, text).exists() for text in name.texts):
            continue
        wanted[name] = packages(name)[0]
        say(describe(wanted[name]))
    if out is None:
        return
    texts = [find_corpus(name, out, wanted.get(name)) for name in dict.fromkeys(names)]
    say_train(names, texts, out)


def parse_name(name: str) -> OpusName:
    """The parts of a name. Raises `DragomanError` for one that is not of OPUS."""
    from dragoman.text.named_datasets.datasets import DATASETS

    if not is_opus(name) and name in DATASETS:
        raise DragomanError(
            f"{name} has validation and test text too; dragoman train --dataset {name} downloads it."
        )
    return parse_opus(name)


def print_packages(name: OpusName) -> None:
    """Print the corpora in two languages, the largest first."""
    from rich.table import Table

    from dragoman.system.terminal import Terminal
    from dragoman.text.named_datasets.opus import packages

    table = Table("name", "pairs", "MiB", "release")
    for package in sorted(packages(name), key=lambda each: -(each.pairs or 0)):
        pairs = "" if package.pairs is None else f"{package.pairs:,}"
        size = "" if package.size is None else f"{package.size / 2**20:,.1f}"
        short = OpusName(name.source, name.target, package.name.corpus)
        table.add_row(str(short), pairs, size, package.name.release)
    Terminal(width=Terminal(width=10_000).measure(table).maximum).print(table)


def say_train(names: Sequence[OpusName], texts: Sequence[tuple[Path, Path]], out: Path) -> None:
    """Say the command that trains on the texts."""
    if len(texts) == 1:
        corpus = shlex.join(map(str, texts[0]))
    else:
        corpus = shlex.join(["--dataset", *map(str, dict.fromkeys(names)), "--folder", str(out)])
    one_pair = len({(name.source, name.target) for name in names}) == 1
    if one_pair:
        say(f"Train with: dragoman train {corpus} --out runs/NAME")


COMMAND = Command(
    "data",
    "Show and download corpora of OPUS by name.",
    data,
    Data,
    example="dragoman data opus:en-de/Tatoeba opus:en-de/TED2020 --out corpora",
    arguments="NAME…",
    positional=("names",),
    groups={"corpora": ("names", "out")},
    metavars={"names": "NAME", "out": "DIR"},
)
