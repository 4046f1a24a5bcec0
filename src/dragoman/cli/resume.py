"""`dragoman resume`: a run that was interrupted."""

from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import Command, Given, settings_from
from dragoman.cli.train import run_training
from dragoman.system.errors import DragomanError


@dataclass(frozen=True)
class Resume:
    """Resume a run that was interrupted. All that it needs is in its folder."""

    run: Path
    """The run's folder."""


def resume(given: Given) -> None:
    """Resume a run."""
    folder = settings_from(Resume, given).run
    from dragoman.pipeline.advice import run_with_advice
    from dragoman.pipeline.reopen import recorded_recipe

    recipe = recorded_recipe(folder)
    if recipe is None:
        raise DragomanError(
            f"{folder} is not a run: there is no {folder / 'recipe.toml'}. If it was interrupted while "
            "its text was prepared, give its train command again."
        )
    out = folder if folder != Path() else Path.cwd()
    run_training(lambda: run_with_advice(replace(recipe, out=out), say))


COMMAND = Command(
    "resume",
    "Resume a run that was interrupted.",
    resume,
    Resume,
    example="dragoman resume runs/ende",
    groups={"run": ("run",)},
    metavars={"run": "RUN"},
    notes="To train for longer: dragoman train RUN/recipe.toml --updates N.",
)
