"""What training returns to a Python program: the run, its translator, its history and its scores.

Does not import torch.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from dragoman.evaluation.measures import evaluate
from dragoman.evaluation.metrics import Score
from dragoman.pipeline.pairs import Rows, texts_of
from dragoman.pipeline.result import RunResult, read_run_result
from dragoman.search.options import SearchOptions
from dragoman.system.arguments import argument, path_argument
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.html import html_table
from dragoman.system.wording import counted
from dragoman.training.events import LogEvent
from dragoman.training.settings import SCORES
from dragoman.translation.translator import Translator

if TYPE_CHECKING:
    import altair

    from dragoman.interop.export import ExportFormat, WeightType
    from dragoman.training.curves import ValidationSample


@dataclass(frozen=True, init=False, repr=False)
class Run(os.PathLike[str]):
    """A run: `Run("runs/ende")`. Wherever a path is wanted it stands for its folder."""

    folder: Path

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "folder", path_argument("folder", folder))  # the class is frozen

    def __fspath__(self) -> str:
        return str(self.folder)

    @cached_property
    def translator(self) -> Translator:
        """The translator of the model that the run has kept. Raises as `Translator.load`."""
        return Translator.load(self.folder)

    @property
    def result(self) -> RunResult:
        """The model's scores on the validation and test data.

        Raises `DragomanError` for a run that is not finished, and if it is damaged.
        """
        if not self._is_finished:
            begun = "is not finished; dragoman.resume continues it"
            has_recipe = (self.folder / "recipe.toml").exists()
            raise DragomanError(f"{self.folder} {begun if has_recipe else 'has no run'}.")
        return read_run_result(self.folder)

    @property
    def _is_finished(self) -> bool:
        """Whether the training has ended, and the model is chosen."""
        return (self.folder / "result.json").exists()

    @property
    def history(self) -> list[LogEvent]:
        """The lines of the run's log in order, a table each; `event` is "train" or "validation", for example.

        Raises `DragomanError` if the log is damaged.
        """
        from dragoman.training.log import read_events

        return cast("list[LogEvent]", read_events(self.folder / "log.jsonl"))

    def evaluate(
        self, pairs: Rows, *, target_language: str | None = None, **options: Unpack[SearchOptions]
    ) -> list[Score]:
        """BLEU, chrF2, chrF2++ and TER of the translations of (source, reference) pairs, as `evaluate` gives.

        `pairs` are those of `train`, but not files: a data frame, for instance, whose columns are named
        `source` and `target`, or by the codes of the run's languages. `target_language` is one of several of
        the model. Raises as `Translator.translate` and
        `evaluate`, and `DragomanError` for what is not a pair of texts.
        """
        code = argument("target_language", target_language, str | None)
        translator = self.translator.into("" if code is None else code)
        languages = translator.languages
        rows = list(texts_of(pairs, (languages.source, languages.target)))
        translations = translator.translate([source for source, _ in rows], **options)
        return evaluate(translations, [reference for _, reference in rows])

    def plot(self) -> "altair.ConcatChart":
        """The curves of `dragoman plot`, as a chart of Altair: notebooks show it, and it has `save(path)`.

        Raises `DragomanError` for an empty log, and if the extra `plot` is not installed.
        """
        from dragoman.pipeline.runs import chart

        return chart(self.folder)

    def export(
        self,
        to: "ExportFormat",
        out: str | os.PathLike[str],
        *,
        precision: "WeightType" = "float32",
        sentences: Sequence[str] | None = None,
    ) -> None:
        """Write the model in another engine's format, after a check that both engines agree.

        `to` is huggingface, ctranslate2, onnx, argos or web, and `out` a new folder, for argos a file. The
        engines are compared on `sentences`; None is a few of random tokens. The page for web is not compared.
        Raises `DragomanError` as `interop.export.export`.
        """
        from dragoman.interop.export import export

        try:
            export(self.folder, to, path_argument("out", out), precision=precision, sentences=sentences)
        except OptionError as error:
            raise DragomanError(error.told({"samples": "sentences"})) from error

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        """The scores, and a validation sentence with its translation, as a table for notebooks.

        Those of a run that is not finished are of its last validation.
        """
        from dragoman.training.curves import training_of
        from dragoman.training.log import read_events

        try:
            training = training_of(self.folder)
            samples = () if training is None else (training.samples or ())[-1:]
            if training is not None and not self._is_finished:
                events = read_events(self.folder / "log.jsonl")
                return html_table(str(self.folder), summary_so_far(events, samples))
            return html_table(str(self.folder), summary_of(self.result, samples))
        except DragomanError as error:
            return html_table(str(self.folder), [("error", str(error))])


def summary_of(result: RunResult, samples: "Sequence[ValidationSample]") -> list[tuple[str, str]]:
    """What a run has reached: its model, its scores, and sentences that were translated in validation."""
    from dragoman.pipeline.autoconfigure import duration

    rows = [
        ("model", result.model),
        ("trained for", f"{counted(result.updates, 'update')}, {duration(60 * result.minutes)}"),
    ]
    rows += validation_rows(result.validation)
    rows += [(f"test {score.name}", f"{score.value:.2f}") for score in result.test]
    return [*rows, *sample_rows(samples)]


def summary_so_far(
    events: Sequence[Mapping[str, Any]], samples: "Sequence[ValidationSample]"
) -> list[tuple[str, str]]:
    """What a run that is not finished has reached by the events of its log, as `summary_of`."""
    updates = max((event["step"] for event in events), default=0)
    rows = [("not finished", f"{counted(updates, 'update')} so far; dragoman.resume continues it")]
    validations = [event for event in events if event["event"] == "validation"]
    for event in validations[-1:]:
        rows += validation_rows({name: event[name] for name in SCORES if name in event})
    return [*rows, *sample_rows(samples)]


def validation_rows(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """The scores of a validation."""
    return [(f"validation {name}", f"{value:.4g}") for name, value in scores.items()]


def sample_rows(samples: "Sequence[ValidationSample]") -> Iterator[tuple[str, str]]:
    """Sentences that were translated in validation."""
    for sample in samples:
        texts = sample.source, sample.reference, sample.translation
        yield from zip(("source", "reference", "translation"), texts, strict=True)
