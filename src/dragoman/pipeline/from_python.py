"""Training from Python: `dragoman.train` and `dragoman.resume`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.directions import refuse_swapped
from dragoman.pipeline.pairs import Pairs, files_of
from dragoman.pipeline.recipe import Preset, Recipe
from dragoman.pipeline.trained_run import Run
from dragoman.system.arguments import path_argument
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.system.toml import overlay, read_toml
from dragoman.system.wording import shown
from dragoman.text.mixture import check_symbols
from dragoman.training.events import Observer, OnEvent


def train(
    recipe: Mapping[str, object] | str | Path = MappingProxyType({}),
    say: Callable[[str], None] = print,
    *,
    pairs: Pairs | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    out: str | Path | None = None,
    minutes: float | None = None,
    on_event: OnEvent | None = None,
) -> Run:
    """Train a model, or resume its run if it has begun.

    `recipe` is a table with the keys of a recipe, or a recipe's file. What it does not say is chosen from the
    text and the machine. `out` is the run's folder, and `minutes` is the time that the training has. `say`
    gets the choices, the validations and the scores, a sentence each.

    `pairs` are the texts to train on: (source, target) each; a data frame of pandas or polars, or records
    such as those of a dataset of Hugging Face, whose columns are named `source` and `target`, or have the
    codes `source_language` and `target_language` as names; two files; or one file that has both sides.

    `on_event` is called with each event of the log, a table as in `Run.history`. It may raise
    `StopIteration`: then the training ends after the update, and the run is finished with the model so far.
    After any other exception the run can be resumed from its last checkpoint.

    A script that calls it needs `if __name__ == "__main__":`, because several processes read a large text.
    The number of threads (`training.threads`) and the settings of glibc's memory stay afterwards, and
    PyTorch's random numbers are others. Raises `DragomanError` for whatever you can correct, and
    `TrainingInterruptedError` after SIGINT, SIGTERM or SIGHUP, when a checkpoint has been written.
    """
    from dragoman.pipeline.advice import run_with_advice

    check_functions(say=say, on_event=say if on_event is None else on_event)
    if not isinstance(recipe, Mapping | str | os.PathLike):
        raise DragomanError(
            f"recipe is a {type(recipe).__name__}; it has to be a table or a file. Texts to train on are "
            "given by their name: train(pairs=…)."
        )
    if isinstance(recipe, str) and recipe in get_args(Preset) and not Path(recipe).exists():
        raise DragomanError(
            f"There is no recipe's file {recipe}. A preset stands in a table: "
            f"train({{'preset': {recipe!r}}}, …)."
        )
    table: dict[str, Any] = (
        dict(recipe) if isinstance(recipe, Mapping) else recipe_table(path_argument("recipe", recipe))
    )
    origin = "recipe" if isinstance(recipe, Mapping) else str(recipe)
    if out is not None:
        table["out"] = str(path_argument("out", out))
    if minutes is not None:
        extend(table, "training", {"minutes": minutes}, origin)
    languages = {"source_language": source_language, "target_language": target_language}
    extend(table, "data", {name: code for name, code in languages.items() if code is not None}, origin)
    if pairs is None and not table["data"].keys() - languages.keys():
        raise DragomanError(
            "There is no text to train on: give pairs, or files as source and target in the recipe's table "
            "data."
        )
    if pairs is not None:
        overlay(Recipe(), {key: value for key, value in table.items() if key != "model"}, origin)  # raises
        codes = table["data"].get("source_language"), table["data"].get("target_language")
        folder = path_argument("out", table.get("out", ""))
        extend(table, "data", files_of(pairs, codes, None if folder == Path() else folder / "pairs"), origin)
    with messages_to(say):
        complete = complete_recipe(table, origin, lambda default: default, has_gpu)
        check_symbols(complete.tokenizer.symbols)
        refuse_swapped(complete)
        return Run(run_with_advice(complete, Observer(on_event)))


def check_functions(**functions: object) -> None:
    """Raise `DragomanError` for what is no function."""
    for name, value in functions.items():
        if not callable(value):
            raise DragomanError(f"{name} is a {type(value).__name__}; it has to be a function.")


def extend(table: dict[str, Any], name: str, values: dict[str, Any], origin: str) -> None:
    """Put values in a table of a recipe. Raises `DragomanError` for something else in its place."""
    part = table.get(name, {})
    if not isinstance(part, Mapping):
        raise DragomanError(f"{origin}: {name} is {shown(part)}; it has to be a table.")
    table[name] = {**part, **values}


def recipe_table(path: Path) -> dict[str, Any]:
    """The table of a recipe's file. That of a run, which may have been moved, names its present folder."""
    table = read_toml(path)
    if (path.parent / "data" / "train" / "corpus.json").exists():
        table["out"] = str(path.parent if path.parent != Path() else Path.cwd())
    return table


def resume(
    folder: str | Path | Run, say: Callable[[str], None] = print, *, on_event: OnEvent | None = None
) -> Run:
    """Resume a run that was interrupted. `on_event` is as in `train`.

    Raises as `train`, and `DragomanError` for a folder without a run.
    """
    from dragoman.pipeline.advice import run_with_advice
    from dragoman.pipeline.reopen import recorded_recipe

    check_functions(say=say, on_event=say if on_event is None else on_event)
    out = path_argument("folder", folder)
    out = Path.cwd() if out == Path() else out
    recipe = recorded_recipe(out)
    if recipe is None:
        raise DragomanError(
            f"{folder} is not a run: there is no {out / 'recipe.toml'}. If it was interrupted while "
            "its text was prepared, train again with the same command or recipe."
        )
    with messages_to(say):
        return Run(run_with_advice(replace(recipe, out=out), Observer(on_event)))
