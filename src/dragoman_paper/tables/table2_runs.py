"""Running rows of Table 2: data, training, the mean of the last checkpoints, one look at the test data."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.evaluation.metrics import bleu, suitable_tokenization
from dragoman.evaluation.paper import tokenised_bleu
from dragoman.model.costs import count_parameters, multiply_adds_by_part
from dragoman.pipeline.passport import passport, text_hashes
from dragoman.pipeline.recipe import Recipe, read_recipe
from dragoman.pipeline.result import read_run_result
from dragoman.pipeline.runs import read_log
from dragoman.system.device import default_device, has_gpu
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.system.messages import messages_to, silent
from dragoman.system.readers import read_json
from dragoman.system.torchrun import process_count, process_rank
from dragoman.text.lines import read_lines
from dragoman.text.named_datasets.datasets import resolve_dataset
from dragoman.text.settings import DataSettings
from dragoman_paper.tables.cells import (
    Cell,
    Hashes,
    Result,
    make_cell,
    read_result,
    train_cell,
    write_result,
)
from dragoman_paper.tables.published import FLOPS_PER_MULTIPLY_ADD, FORWARD_AND_BACKWARD, estimated_flops
from dragoman_paper.tables.runner import progress
from dragoman_paper.tables.table2 import TITLE, TrainedRow

logger = logging.getLogger(__name__)
SEED = 1  # the paper trained each model once
REPEATS = 5  # of which the fastest counts


@dataclass(frozen=True)
class Outcome(Result):
    """What a row came to. `perplexity`, `nll`, `bleu` and `signature` are of the validation data."""

    averaged: list[int]
    """The updates of the checkpoints whose mean is the model."""
    test_bleu: float
    """By sacreBLEU."""
    test_signature: str
    paper_bleu: float
    """As the paper computes it: of tokens, with compounds split."""
    paper_signature: str
    devices: int
    """Processes that trained, of the last start."""
    device_flops: float
    """Sustained single-precision floating-point operations per second of a device, measured."""
    estimated_flops: float
    """Of the training, the paper's way: time of the updates · devices · sustained operations per second."""
    counted_flops: float
    """Of the training, from the shapes of the matrix products."""


@dataclass(frozen=True)
class Table2Request:
    """What to run of Table 2."""

    scale: str
    every_row: Sequence[TrainedRow]
    """All rows of the page."""
    rows: Sequence[TrainedRow]
    """Those to run."""
    out: Path
    data: Path | None = None
    """A folder with a folder for each dataset; None is the cache."""
    command: str = ""
    version: str = ""

    @property
    def folder(self) -> Path:
        """Where the runs and the page are."""
        return self.out / "table2" / self.scale

    def cell(self, row: TrainedRow, data: DataSettings) -> Cell:
        """A row's recipe and folder. The test files are left out of the recipe."""
        train = replace(data, test_source=None, test_target=None)
        return make_cell(self.folder, row.name, SEED, row.recipe(train))


def find_data(row: TrainedRow, folder: Path | None) -> DataSettings:
    """The texts of a row's dataset. Raises `DragomanError` as `resolve_dataset`."""
    row_folder = None if folder is None else folder / row.dataset
    return resolve_dataset(DataSettings(dataset=row.dataset, folder=row_folder))


def run_rows(request: Table2Request) -> bool:
    """Run the rows that are missing. Returns whether this is the main process, which measured them.

    Raises `DragomanError` as `find_data` and `run`, and before training as `finished`, of every row, and
    `tokenised_bleu`; `TrainingInterruptedError` if a signal ended it.
    """
    from dragoman.training.interrupt import TrainingInterruptedError

    for row in request.every_row:
        finished(request, row)  # raises for a damaged result, which the page would need
    is_main, results = process_rank() == 0, {}
    try:
        for row in request.rows:
            tokenised_bleu(["a"], ["a"], row.pair.split("-")[1])
            data = find_data(row, request.data)
            hashes = text_hashes(data.files)
            cell = request.cell(row, data)
            outcome = read_result(cell, hashes, Outcome)
            if outcome is None:
                logger.info(
                    f"{row.name}: training {row.updates:,} updates. Its messages, with the expected time, "
                    f"are in {cell.messages}."
                )
                train_cell(cell, hashes)
                if not is_main:  # starts the next row
                    continue
                outcome = measure_row(cell, row, data, passport(request.command, request.version, hashes))
            results[row.name] = outcome
            logger.info(f"{row.name}: complete. {progress(results, len(request.rows))}")
    except (KeyboardInterrupt, TrainingInterruptedError):
        logger.info(f"Stopped: {TITLE}. {progress(results, len(request.rows))} The same command resumes.")
        raise
    return is_main


def measure_row(cell: Cell, row: TrainedRow, data: DataSettings, origin: dict[str, Any]) -> Outcome:
    """Average a trained row's checkpoints, translate validation and test data, and write the result.

    This is the only place that translates the test data, and it chooses nothing.
    """
    from dragoman.translation.translator import Translator

    run = cell.folder / "run"
    trained, recipe = read_run_result(run), read_recipe(run)
    averaged = average_row(cell, recipe, trained.updates)
    translator = Translator.load(cell.folder / "model")
    assert data.test_source is not None
    assert data.test_target is not None
    valid_source, valid = (
        list(read_lines(run / "data" / f"valid.{side}.txt")) for side in ("source", "target")
    )
    test = list(read_lines(data.test_target))
    hypotheses = translator.translate(list(read_lines(data.test_source)), recipe.search)
    write_lines(cell.folder / "test.hypotheses.txt", hypotheses)
    on_valid = bleu(translator.translate(valid_source, recipe.search), valid, suitable_tokenization(valid))
    on_test = bleu(hypotheses, test)
    paper = tokenised_bleu(hypotheses, test, row.pair.split("-")[1])
    scores = trained.candidates.get("average", trained.validation)
    sizes = len(translator.tokenizers.source), len(translator.tokenizers.target)
    devices, sustained = process_count(), sustained_flops()
    result = Outcome(
        row=cell.row,
        seed=cell.seed,
        perplexity=scores["perplexity"],
        nll=scores["nll"],
        bleu=on_valid.value,
        signature=on_valid.signature,
        parameters=count_parameters(recipe.model, *sizes),
        minutes=trained.minutes,
        settings=cell.settings,
        passport=origin,
        averaged=averaged,
        test_bleu=on_test.value,
        test_signature=on_test.signature,
        paper_bleu=paper.value,
        paper_signature=paper.signature,
        devices=devices,
        device_flops=sustained,
        estimated_flops=estimated_flops(training_hours(run), devices, sustained),
        counted_flops=counted_flops(recipe, run, sizes[1], trained.updates),
    )
    write_result(cell, result)
    return result


def training_hours(run: Path) -> float:
    """Hours of updates, without validations."""
    return sum(event["seconds"] for event in read_log(run) if event["event"] == "train") / 3600


def average_row(cell: Cell, recipe: Recipe, step: int) -> list[int]:
    """Write the mean of a run's last checkpoints as the row's model; returns their updates."""
    from dragoman.model.weights import load_weights
    from dragoman.pipeline.prepared import PreparedData, keep, make_model
    from dragoman.training.checkpoint import average_checkpoints
    from dragoman.training.world import World

    run, training = cell.folder / "run", recipe.training
    assert training.checkpoint_every is not None
    data = PreparedData.load(run / "data")
    with messages_to(silent):  # the training has named damaged ones
        tensors, steps = average_checkpoints(run, training.average, training.checkpoint_every, step)
    model = make_model(recipe, data, World().device)
    load_weights(model, tensors, run / "checkpoints")
    keep(cell.folder / "model", model, recipe, data)
    return steps


def counted_flops(recipe: Recipe, run: Path, vocabulary: int, updates: int) -> float:
    """Floating-point operations of a training's matrix products, with batches taken as full.

    Sentences count as those of the mean lengths of the training text, with their ends.
    """
    from dragoman.text.corpus import Corpus

    source, target = (
        round(float(lengths.mean())) + 1 for lengths in Corpus(run / "data" / "train").lengths()
    )
    pair = sum(multiply_adds_by_part(recipe.model, vocabulary, source, target).values())
    tokens = (recipe.batches.target_tokens_per_batch or 0) * recipe.batches.accumulate
    return FORWARD_AND_BACKWARD * FLOPS_PER_MULTIPLY_ADD * pair / target * tokens * updates


def sustained_flops() -> float:
    """Floating-point operations per second of products of single-precision matrices on this device."""
    import torch

    on_gpu = has_gpu()
    size = 4096 if on_gpu else 512
    matrix = torch.randn(size, size, device=default_device())

    def seconds() -> float:
        start = time.perf_counter()
        product = matrix @ matrix
        if on_gpu:
            torch.cuda.synchronize()
        assert product.shape == matrix.shape
        return time.perf_counter() - start

    return 2 * size**3 / min(seconds() for _ in range(REPEATS))


def finished(request: Table2Request, row: TrainedRow) -> Outcome | None:
    """The result of a row that has been run, by this command or an earlier one; None if it has not.

    Raises `DragomanError` if it is damaged, or of other settings.
    """
    cell = request.cell(row, DataSettings())
    path = cell.folder / "result.json"
    try:
        hashes: Hashes = read_json(path)["passport"]["data"] if path.exists() else {}
    except (KeyError, TypeError) as error:
        raise DragomanError(
            f"{path} is not as `dragoman reproduce` writes it. Delete its folder to run the cell again."
        ) from error
    return read_result(cell, hashes, Outcome)
