"""`dragoman quickstart`: a small model on the CMU Pronouncing Dictionary."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.cli.parsing import Arguments, Command, settings_from
from dragoman.cli.train import run_training
from dragoman.system.options import check_options, option


@dataclass(frozen=True)
class Quickstart:
    """Train and score a small model on the CMU Pronouncing Dictionary: spelling to phonemes."""

    out: Path = Path("runs/quickstart")
    """The run's folder."""
    minutes: float = option(4.2, at_least=0.01)
    """Training time for which the number of updates is chosen; 4 times as long on a GPU."""
    updates: int | None = option(None, at_least=1)
    """Number of updates, instead of minutes."""
    recipe: Path | None = None
    """A recipe (TOML) whose keys override those of the quickstart."""

    def __post_init__(self) -> None:
        check_options(self)


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
