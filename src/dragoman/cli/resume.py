"""`dragoman resume`: a run that was interrupted."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.console import say
from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.train import run_training


@dataclass(frozen=True)
class Resume:
    """Resume a run that was interrupted. All that it needs is in its folder."""

    run: Path
    """The run's folder."""


def resume(arguments: Arguments) -> None:
    """Resume a run."""
    folder = settings_from(Resume, arguments).run
    from dragoman.pipeline import from_python

    run_training(lambda: from_python.resume(folder, say))


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
