"""result.json: what a finished run says about the model that it has kept."""

from dataclasses import dataclass
from pathlib import Path

from dragoman.system.errors import DragomanError
from dragoman.system.readers import read_json
from dragoman.system.toml import check_bounds, from_table
from dragoman.training.settings import SCORES


@dataclass(frozen=True)
class NamedScore:
    """A score of the test data."""

    name: str
    value: float
    signature: str
    detail: str = ""


@dataclass(frozen=True)
class RunResult:
    """The fields are the keys of result.json. Raises `DragomanError` for a number that is out of bounds."""

    model: str
    """A description of the model."""
    kept: str
    """`best`, `last` or `average`."""
    updates: int
    minutes: float
    validation: dict[str, float]
    """Scores of the model. Those of a diverged model may be NaN or infinite."""
    candidates: dict[str, dict[str, float]]
    """Scores of each model that the run might have kept."""
    test: tuple[NamedScore, ...] = ()
    """Scores of the test data, if there is any."""

    def __post_init__(self) -> None:
        if missing := [name for name in SCORES if name not in self.validation]:
            raise DragomanError(f"validation lacks {', '.join(missing)}; it is not as it was written.")
        check_bounds(self, at_least={"updates": 0, "minutes": 0}, at_most={"updates": 10**9})


def read_run_result(run: Path) -> RunResult:
    """The result of a finished run.

    Raises `DragomanError` with the file's name if it cannot be read, or is not as a run writes it.
    """
    path = run / "result.json"
    return from_table(RunResult, read_json(path, is_finite=False), str(path))
