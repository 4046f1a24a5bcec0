"""What is measured of a trained cell besides its result: test scores, speeds, and BLEU over time."""

import json
import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from dragoman.evaluation.measures import chrf
from dragoman.pipeline.result import read_run_result
from dragoman.system.errors import DragomanError
from dragoman.system.files import write_lines
from dragoman.system.readers import read_json
from dragoman.text.lines import read_lines
from dragoman_paper.tables.cells import Cell

logger = logging.getLogger(__name__)
WARM_UP = 32  # sentences that are translated before the clock starts


@dataclass(frozen=True)
class Measures:
    """Measures of a model and its training."""

    row: str
    seed: int
    chrf: float
    """Of the validation data, as the result's BLEU."""
    test_bleu: float
    test_chrf: float
    tokens_per_second: float
    """Target tokens in training, the median over the log's lines."""
    sentences_per_second: float
    """In decoding the validation data with the recipe's search, by the C++ decoder where it has the model."""
    torch_sentences_per_second: float
    """The same by PyTorch."""
    curve: list[tuple[float, float]]
    """(minutes of training without validations, BLEU of greedy translations), a point per validation."""


def measure_cell(cell: Cell) -> Measures:
    """Measure a cell whose result is there, or read what was measured before.

    Raises `DragomanError` if the file is damaged.
    """
    path = cell.folder / "measures.json"
    if not path.exists():
        measures = measure(cell)
        write_lines(path, [json.dumps(asdict(measures), indent=2)])
        logger.info(
            f"{cell.name}: {measures.tokens_per_second:,.0f} target tokens per second in training, "
            f"{measures.sentences_per_second:,.0f} sentences per second in decoding."
        )
    try:
        return Measures(**read_json(path))
    except TypeError as error:
        raise DragomanError(
            f"{path} is not as `dragoman reproduce` writes it: {error}. Delete it to measure again."
        ) from error


def measure(cell: Cell) -> Measures:
    """The measures of a trained cell."""
    from dragoman.training.log import read_events

    run = cell.folder / "run"
    references = list(read_lines(run / "data" / "valid.target.txt"))
    test = {score.name: score.value for score in read_run_result(run).test}
    events = read_events(run / "log.jsonl")
    return Measures(
        row=cell.row,
        seed=cell.seed,
        chrf=chrf(list(read_lines(cell.folder / "hypotheses.txt")), references).value,
        test_bleu=test["BLEU"],
        test_chrf=test["chrF2"],
        tokens_per_second=median(event["tokens_per_second"] for event in events if event["event"] == "train"),
        sentences_per_second=decoding_speed(cell, run, native=True),
        torch_sentences_per_second=decoding_speed(cell, run, native=False),
        curve=bleu_over_time(events),
    )


def decoding_speed(cell: Cell, run: Path, native: bool) -> float:
    """Sentences per second of the validation data, without loading the model."""
    from dragoman.translation.translator import Translator

    translator = Translator.load(run, native=native)
    sentences = list(read_lines(run / "data" / "valid.source.txt"))
    translator.translate(sentences[:WARM_UP], cell.recipe.search)
    started = time.monotonic()
    translator.translate(sentences, cell.recipe.search)
    return len(sentences) / (time.monotonic() - started)


def bleu_over_time(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """The points of `Measures.curve` in the events of a log."""
    seconds, points = 0.0, []
    for event in events:
        if event["event"] == "train":
            seconds += event["seconds"]
        elif event["event"] == "validation":
            points.append((seconds / 60, event["bleu"]))
    return points


def minutes_to(score: float, curve: list[tuple[float, float]]) -> float | None:
    """Minutes until a BLEU is reached, on straight lines between validations; None if it is not reached."""
    before = (0.0, 0.0)
    for minutes, value in curve:
        if value >= score:
            rise = value - before[1]
            share = (score - before[1]) / rise if rise > 0 else 1.0
            return before[0] + share * (minutes - before[0])
        before = (minutes, value)
    return None
