"""Training from Python: `dragoman.train` and `dragoman.resume`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dragoman.pipeline.complete import complete_recipe
from dragoman.pipeline.directions import refuse_swapped
from dragoman.system.device import has_gpu
from dragoman.system.errors import DragomanError
from dragoman.system.messages import messages_to
from dragoman.system.toml import read_toml
from dragoman.text.mixture import check_symbols


def train(recipe: Mapping[str, Any] | str | Path, say: Callable[[str], None] = print) -> Path:
    """Train a model, or resume its run if it has begun; return the run's folder, for `Translator.load`.

    `recipe` is a table with the keys of a recipe, or a recipe's file. What it does not say is chosen from the
    text and the machine. `say` gets the choices, the validations and the scores, a sentence each. A script
    that calls it needs `if __name__ == "__main__":`, because several processes read a large text.

    The number of threads (`training.threads`) and the settings of glibc's memory stay afterwards, and
    PyTorch's random numbers are others. Raises `DragomanError` for whatever you can correct, and
    `TrainingInterruptedError` after SIGINT, SIGTERM or SIGHUP, when a checkpoint has been written.
    """
    from dragoman.pipeline.advice import run_with_advice

    table = dict(recipe) if isinstance(recipe, Mapping) else recipe_table(Path(recipe))
    origin = "recipe" if isinstance(recipe, Mapping) else str(recipe)
    with messages_to(say):
        complete = complete_recipe(table, origin, lambda default: default, has_gpu)
        check_symbols(complete.tokenizer.symbols)
        refuse_swapped(complete)
        return run_with_advice(complete)


def recipe_table(path: Path) -> dict[str, Any]:
    """The table of a recipe's file. That of a run, which may have been moved, names its present folder."""
    table = read_toml(path)
    if (path.parent / "data" / "train" / "corpus.json").exists():
        table["out"] = str(path.parent if path.parent != Path() else Path.cwd())
    return table


def resume(folder: str | Path, say: Callable[[str], None] = print) -> Path:
    """Resume a run that was interrupted; return its folder.

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
        return run_with_advice(replace(recipe, out=out))
