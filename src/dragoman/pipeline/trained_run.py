"""What training returns to a Python program: the run, its translator, its history and its scores.

Does not import torch.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Unpack

from dragoman.evaluation.measures import chrf
from dragoman.evaluation.metrics import Score, bleu, suitable_tokenization
from dragoman.pipeline.result import RunResult, read_run_result
from dragoman.search.options import SearchOptions
from dragoman.translation.translator import Translator


@dataclass(frozen=True)
class Run(os.PathLike[str]):
    """A run that is finished. Wherever a path is wanted it stands for its folder."""

    folder: Path

    def __fspath__(self) -> str:
        return str(self.folder)

    @cached_property
    def translator(self) -> Translator:
        """The translator of the model that the run has kept. Raises as `Translator.load`."""
        return Translator.load(self.folder)

    @property
    def result(self) -> RunResult:
        """The model's scores on the validation and test data. Raises `DragomanError` if it is damaged."""
        return read_run_result(self.folder)

    @property
    def history(self) -> list[dict[str, Any]]:
        """The lines of the run's log in order, a table each; `event` is "train" or "validation".

        Raises `DragomanError` if the log is damaged.
        """
        from dragoman.training.log import read_events

        return read_events(self.folder / "log.jsonl")

    def evaluate(self, pairs: Iterable[tuple[str, str]], **options: Unpack[SearchOptions]) -> list[Score]:
        """BLEU and chrF of the translations of (source, reference) pairs.

        Raises as `Translator.translate`, and `DragomanError` without any pair.
        """
        sources, references = map(list, zip(*pairs, strict=True)) if (pairs := list(pairs)) else ([], [])
        translations = self.translator.translate(sources, **options)
        return [
            bleu(translations, references, suitable_tokenization(references)),
            chrf(translations, references),
        ]
