"""A cell of a table: one recipe, trained, its validation data translated, its result written once."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar, get_origin, get_type_hints

from dragoman.evaluation.metrics import bleu, suitable_tokenization
from dragoman.model.costs import count_parameters
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.system.messages import messages_to
from dragoman.system.readers import read_json
from dragoman.system.toml import overlay, to_table
from dragoman.system.torchrun import process_rank
from dragoman.system.wording import shown
from dragoman.text.lines import read_lines

Hashes = Mapping[str, str]  # SHA-256 of each text, by the name of its setting


@dataclass(frozen=True)
class Cell:
    """A row and a seed, in a folder of their own: `run/`, `messages.txt`, `hypotheses.txt`, `result.json`."""

    row: str
    seed: int
    folder: Path
    recipe: Recipe

    @property
    def name(self) -> str:
        """The row and the seed, in words."""
        return f"{self.row}, seed {self.seed}"

    @property
    def messages(self) -> Path:
        """The file of what the training says."""
        return self.folder / "messages.txt"

    @property
    def settings(self) -> dict[str, Any]:
        """What the recipe asks for, without paths."""
        return settings_of(self.recipe)


def cell_lines(folder: Path, file: str) -> list[str]:
    """The lines of a text in a cell's folder. Raises `DragomanError` if it is missing."""
    if not (folder / file).exists():
        raise DragomanError(
            f"{folder} has a result, but not {file}, which the page needs; delete {folder / 'result.json'}, "
            "and the same command trains this cell again."
        )
    return list(read_lines(folder / file))


@dataclass(frozen=True)
class Result:
    """Scores of a cell. Perplexity is of the negative log-likelihood per token, without label smoothing."""

    row: str
    seed: int
    perplexity: float
    nll: float
    bleu: float
    signature: str
    parameters: int
    minutes: float
    """Of training, with its validations; preparing, and translating after it, are left out."""
    settings: dict[str, Any]
    passport: dict[str, Any]

    def agrees(self, cell: Cell, hashes: Hashes) -> bool:
        """Whether the cell, run now, would be of the same settings and the same text.

        A setting that did not exist then has its default. Raises `DragomanError` for one that no longer does.
        """
        former = settings_of(overlay(Recipe(), self.settings, "its settings"))
        if (self.row, self.seed) != (cell.row, cell.seed):
            raise DragomanError(f"it is the result of {self.row}, seed {self.seed}")
        return former == cell.settings and self.passport["data"] == dict(hashes)


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """A recipe's settings without paths."""
    return {key: value for key, value in to_table(recipe).items() if key not in ("out", "data")}


R = TypeVar("R", bound=Result)


def read_result(cell: Cell, hashes: Hashes, kind: type[R]) -> R | None:
    """The cell's result, None if it is not complete.

    Raises `DragomanError` if the file is damaged, or if it is of other settings or another text.
    """
    path = cell.folder / "result.json"
    if not path.exists():
        return None
    try:
        result = result_of(read_json(path), kind)
        agrees = result.agrees(cell, hashes)
    except (KeyError, TypeError, DragomanError) as error:
        raise DragomanError(
            f"{path} is not as `dragoman reproduce` writes it: {str(error).rstrip('.')}. Delete its folder "
            "to run the cell again."
        ) from error
    if not agrees:
        raise DragomanError(
            f"{path} is of other settings or another text than those asked for now; choose another --out, or "
            f"delete {cell.folder} to run the cell again."
        )
    return result


def result_of(table: Any, kind: type[R]) -> R:
    """The result that a file has. Raises `DragomanError` for missing, unknown or impossible values."""
    hints = get_type_hints(kind)
    if not isinstance(table, dict) or table.keys() != hints.keys():
        raise DragomanError("its names are not those of a result")
    for name, hint in hints.items():
        kinds, value = get_origin(hint) or hint, table[name]
        numbers = (int, float) if kinds is float else kinds
        is_finite = not isinstance(value, float) or math.isfinite(value)
        if not isinstance(value, numbers) or isinstance(value, bool) or not is_finite:
            raise DragomanError(f"{name} is {shown(value)}")
    return kind(**table)


def train_cell(cell: Cell, hashes: Hashes) -> None:
    """Train the cell's run, or resume it. Its messages go to a file.

    Raises as `run`, and if it began with a different text; a `DragomanError` names the cell.
    """
    from dragoman.pipeline.run import run

    cell.folder.mkdir(parents=True, exist_ok=True)
    refuse_another_text(cell, hashes)
    with cell.messages.open("a", encoding="utf-8") as messages:

        def write(sentence: str) -> None:
            messages.write(f"{sentence}\n")
            messages.flush()

        try:
            with messages_to(write):
                run(cell.recipe)
        except DragomanError as error:
            raise DragomanError(f"{cell.name}: {error}") from error


def refuse_another_text(cell: Cell, hashes: Hashes) -> None:
    """Raise `DragomanError` if the cell's run began with a different text; remember this one."""
    path = cell.folder / "texts.json"
    if path.exists() and (cell.folder / "run").exists() and read_json(path) != dict(hashes):
        raise DragomanError(
            f"{cell.name}: the run in {cell.folder} began with a different text; choose "
            "another --out, or delete this folder to run the cell again."
        )
    if process_rank() == 0:
        write_lines(path, [json.dumps(dict(hashes), indent=2)])


def score_cell(cell: Cell, passport: dict[str, Any]) -> Result:
    """Translate the validation data of a trained cell, score it, and write the result."""
    from dragoman.translation.translator import Translator

    folder = cell.folder / "run"
    source, target = (
        list(read_lines(folder / "data" / f"valid.{side}.txt")) for side in ("source", "target")
    )
    translator = Translator.load(folder)
    hypotheses = translator.translate(source, cell.recipe.search)
    write_lines(cell.folder / "hypotheses.txt", hypotheses)
    score = bleu(hypotheses, target, suitable_tokenization(target))
    trained = read_run_result(folder)
    tokenizers = translator.tokenizers
    result = Result(
        row=cell.row,
        seed=cell.seed,
        perplexity=trained.validation["perplexity"],
        nll=trained.validation["nll"],
        bleu=score.value,
        signature=score.signature,
        parameters=count_parameters(
            read_recipe(folder).model, len(tokenizers.source), len(tokenizers.target)
        ),
        minutes=trained.minutes,
        settings=cell.settings,
        passport=passport,
    )
    write_result(cell, result)
    return result


def write_result(cell: Cell, result: Result) -> None:
    """Write the cell's result. The run's checkpoints, most of its bytes, are deleted then."""
    write_lines(cell.folder / "result.json", [json.dumps(asdict(result), indent=2)])
    rmtree(cell.folder / "run" / "checkpoints", ignore_errors=True)


def make_cell(folder: Path, row: str, seed: int, recipe: Recipe) -> Cell:
    """The cell of a row and a seed, in its folder under the table's."""
    cell_folder = folder / row / f"seed-{seed}"
    return Cell(row, seed, cell_folder, replace(recipe, out=cell_folder / "run"))
