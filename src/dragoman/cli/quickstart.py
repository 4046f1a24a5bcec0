"""`dragoman quickstart`: a small model on the CMU Pronouncing Dictionary."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.train import run_training
from dragoman.system.toml import check_bounds


@dataclass(frozen=True)
class Quickstart:
    """Train and score a small model on the CMU Pronouncing Dictionary: spelling to phonemes."""

    out: Path = Path("runs/quickstart")
    """The run's folder."""
    minutes: float = 4.2
    """Training time for which the number of updates is chosen; 4 times as long on a GPU."""
    updates: int | None = None
    """Number of updates, instead of minutes."""
    recipe: Path | None = None
    """A recipe (TOML) whose keys override those of the quickstart."""

    def __post_init__(self) -> None:
        check_bounds(self, at_least={"minutes": 0.01, "updates": 1})


def quickstart(arguments: Arguments) -> None:
    """Train and score the model.

    Raises `UnicodeEncodeError` for an `out` that is not UTF-8, which no recipe can hold.
    """
    settings = settings_from(Quickstart, arguments)
    str(settings.out).encode()  # raises before anything is written
    from dragoman.pipeline.quickstart import quickstart as start

    run_training(lambda: start(settings.out, settings.minutes, settings.updates, settings.recipe))


COMMAND = Command(
    "quickstart",
    "Train and score a small model on the CMU Pronouncing Dictionary (extra: dragoman[quickstart]).",
    quickstart,
    Quickstart,
    example="dragoman quickstart --minutes 4",
    arguments="",
    positional=(),
    groups={"options": ("out", "minutes", "updates", "recipe")},
    metavars={"out": "DIR"},
)
