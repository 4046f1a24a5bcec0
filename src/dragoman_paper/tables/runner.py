"""Running a table: cells that are complete are kept, one that was interrupted resumes, then the page."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from dragoman.pipeline.autoconfigure import duration
from dragoman.pipeline.passport import passport, text_hashes
from dragoman.system.errors import DragomanError
from dragoman.system.torchrun import process_rank
from dragoman.text.named_datasets.datasets import resolve_dataset
from dragoman.text.settings import DataSettings
from dragoman_paper.tables.cells import (
    Cell,
    Result,
    make_cell,
    read_result,
    score_cell,
    train_cell,
)
from dragoman_paper.tables.rows import Row, Scale, Table

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """What to run of a table."""

    table: Table
    scale: Scale
    rows: Sequence[Row]
    seeds: int
    out: Path
    data: Path | None = None
    command: str = ""
    """As it was typed, for the passports."""
    version: str = ""
    """Of the package, for the same."""

    @property
    def folder(self) -> Path:
        """Where the cells and the page are."""
        return self.out / self.table.name / self.scale.name

    @property
    def not_run(self) -> list[str]:
        """The rows of the table that were not asked for."""
        return [row.name for row in self.table.rows if row not in self.rows]


def find_texts(scale: Scale, folder: Path | None) -> DataSettings:
    """The scale's files, in the folder or of its named dataset, plain or gzip, with their whole paths.

    Raises `DragomanError` if one is missing, with the names of all, and as `resolve_dataset`.
    """
    file_names = {name: str(path) for name, path in scale.data.files.items()}
    if folder is None and scale.dataset is not None:
        try:
            dataset = resolve_dataset(DataSettings(dataset=scale.dataset))
        except DragomanError as error:
            raise DragomanError(f"{error} Or name the folder of your own copy with --data.") from error
        files: dict[str, Any] = {name: dataset.files[name] for name in file_names}
        return DataSettings(**files)
    folder = folder or Path()
    paths: dict[str, Any] = {}
    for name, file in file_names.items():
        choices = [folder / file, folder / f"{file}.gz"]
        if (path := next(filter(Path.is_file, choices), None)) is None:
            raise DragomanError(
                f"There is no {file} in {folder}, plain or as {file}.gz. This scale reads "
                f"{', '.join(file_names.values())} ({scale.about}), one sentence per line; name their folder "
                "with --data."
            )
        paths[name] = path
    return DataSettings(**paths)


def make_cells(request: Request, data: DataSettings) -> list[Cell]:
    """The cells: all rows with seed 1 first, so that an interrupted table is one of fewer seeds."""
    return [
        make_cell(request.folder, row.name, seed, request.scale.recipe(row, seed, data))
        for seed in range(1, request.seeds + 1)
        for row in request.rows
    ]


def run_table(request: Request) -> list[Result]:
    """Run the cells of a table, as `run_cells`. Raises `DragomanError` also as `find_texts`."""
    cells = make_cells(request, find_texts(request.scale, request.data))
    return run_cells(request, cells, request.table.title)


def run_cells(
    request: Request,
    cells: Sequence[Cell],
    title: str,
    measure: Callable[[Cell], object] | None = None,
) -> list[Result]:
    """Run the cells that are missing, and return the results of all; `measure` gets each once it is scored.

    Processes that torchrun has started train together, and the main one scores. Raises `DragomanError` as
    `read_result` and `run`; `TrainingInterruptedError` if a signal ended the training.
    """
    from dragoman.training.interrupt import TrainingInterruptedError

    texts = {data: text_hashes(data.files) for data in {cell.recipe.data for cell in cells}}
    previous = {cell.name: read_result(cell, texts[cell.recipe.data], Result) for cell in cells}
    results = {name: result for name, result in previous.items() if result is not None}
    logger.info(f"{title}, at the scale {request.scale.name}: {progress(results, len(cells))}")
    try:
        for cell in cells:
            if cell.name not in results:
                logger.info(
                    f"{cell.name}: training. Its messages, with the expected time, are in {cell.messages}."
                )
                train_cell(cell, texts[cell.recipe.data])
                if process_rank() == 0:  # the others start the next cell
                    hashes = texts[cell.recipe.data]
                    result = score_cell(cell, passport(request.command, request.version, hashes))
                    results[cell.name] = result
                    scores = f"perplexity {result.perplexity:.4g}, BLEU {result.bleu:.2f}"
                    logger.info(f"{cell.name}: {scores}. {progress(results, len(cells))}")
                    if measure is not None:
                        measure(cell)
    except (KeyboardInterrupt, TrainingInterruptedError):
        logger.info(f"Stopped: {progress(results, len(cells))} The same command resumes.")
        raise
    return [results[cell.name] for cell in cells if cell.name in results]


def progress(results: Mapping[str, Result], cells: int) -> str:
    """How many cells are complete, and about how long the others train."""
    left, done = cells - len(results), f"{len(results)} of {cells} cells are complete"
    if not left or not results:
        return f"{done}."
    seconds = 60 * left * mean(result.minutes for result in results.values())
    return f"{done}; the others train for {duration(seconds)}, by the mean so far."
