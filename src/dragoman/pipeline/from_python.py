"""Training from Python: `dragoman.train` and `dragoman.resume`."""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.directions import refuse_swapped
from dragoman.pipeline.trained_run import Run
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.system.messages import messages_to
from dragoman.system.toml import read_toml
from dragoman.system.wording import shown
from dragoman.text.mixture import check_symbols

SURROGATE = re.compile("[\ud800-\udfff]")


def train(
    recipe: Mapping[str, Any] | str | Path = MappingProxyType({}),
    say: Callable[[str], None] = print,
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
) -> Run:
    """Train a model, or resume its run if it has begun.

    `recipe` is a table with the keys of a recipe, or a recipe's file. What it does not say is chosen from the
    text and the machine. `pairs` are the texts to train on, (source, target) each, in the place of files;
    `out` is the run's folder, and `minutes` is the time that the training has. `say` gets the choices, the
    validations and the scores, a sentence each. A script that calls it needs `if __name__ == "__main__":`,
    because several processes read a large text.

    The number of threads (`training.threads`) and the settings of glibc's memory stay afterwards, and
    PyTorch's random numbers are others. Raises `DragomanError` for whatever you can correct, and
    `TrainingInterruptedError` after SIGINT, SIGTERM or SIGHUP, when a checkpoint has been written.
    """
    from dragoman.pipeline.advice import run_with_advice

    table = dict(recipe) if isinstance(recipe, Mapping) else recipe_table(Path(recipe))
    origin = "recipe" if isinstance(recipe, Mapping) else str(recipe)
    if out is not None:
        table["out"] = str(out)
    if minutes is not None:
        table["training"] = table.get("training", {}) | {"minutes": minutes}
    if pairs is not None:
        if not table.get("out"):
            raise DragomanError("Pairs are kept in the run's folder; name it with out.")
        source, target = write_pairs(pairs, Path(table["out"]) / "pairs")
        table["data"] = table.get("data", {}) | {"source": str(source), "target": str(target)}
    with messages_to(say):
        complete = complete_recipe(table, origin, lambda default: default, has_gpu)
        check_symbols(complete.tokenizer.symbols)
        refuse_swapped(complete)
        return Run(run_with_advice(complete))


def write_pairs(pairs: Iterable[tuple[str, str]], folder: Path) -> tuple[Path, Path]:
    """Write pairs as two files with a line for each, in which line breaks are spaces; return their paths.

    Raises `DragomanError` for what is not a pair of texts, and if the folder has other pairs.
    """
    rows = [pair_of_lines(number, pair) for number, pair in enumerate(pairs)]
    paths = folder / "source.txt", folder / "target.txt"
    for path, lines in zip(paths, zip(*rows, strict=True), strict=bool(rows)):
        if path.exists() and path.read_bytes() != "".join(f"{line}\n" for line in lines).encode():
            raise DragomanError(f"{folder} has other pairs; choose another out, or delete the run.")
    folder.mkdir(parents=True, exist_ok=True)
    for side, path in enumerate(paths):
        write_lines(path, [row[side] for row in rows])
    return paths


def pair_of_lines(number: int, pair: object) -> tuple[str, str]:
    """The two texts of a pair, each on one line. Raises `DragomanError` for anything else."""
    is_unfit = isinstance(pair, str | bytes | Mapping | Set)
    texts = list(pair) if isinstance(pair, Iterable) and not is_unfit else []
    if [isinstance(text, str) for text in texts] != [True, True]:
        raise DragomanError(
            f"Pair {number} (counted from 0) is {shown(pair)}; it has to be two texts, source and target."
        )
    if any(SURROGATE.search(text) for text in texts):
        raise DragomanError(
            f"Pair {number} (counted from 0) has a half of a surrogate pair, which UTF-8 cannot write: "
            f"{shown(pair)}."
        )
    source, target = (" ".join(text.splitlines()) for text in texts)
    return source, target


def recipe_table(path: Path) -> dict[str, Any]:
    """The table of a recipe's file. That of a run, which may have been moved, names its present folder."""
    table = read_toml(path)
    if (path.parent / "data" / "train" / "corpus.json").exists():
        table["out"] = str(path.parent if path.parent != Path() else Path.cwd())
    return table


def resume(folder: str | Path | Run, say: Callable[[str], None] = print) -> Run:
    """Resume a run that was interrupted.

    Raises as `train`, and `DragomanError` for a folder without a run.
    """
    from dragoman.pipeline.advice import run_with_advice
    from dragoman.pipeline.reopen import recorded_recipe

    out = Path(folder) if Path(folder) != Path() else Path.cwd()
    recipe = recorded_recipe(out)
    if recipe is None:
        raise DragomanError(
            f"{folder} is not a run: there is no {out / 'recipe.toml'}. If it was interrupted while "
            "its text was prepared, train again with the same command or recipe."
        )
    with messages_to(say):
        return Run(run_with_advice(replace(recipe, out=out)))
