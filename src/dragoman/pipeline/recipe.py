"""A recipe: all settings of a run, each defined once.

Does not import torch.
"""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.search.settings import EXTRA_TOKENS, SearchSettings
from dragoman.system.clock import seconds_until
from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.toml import check_types, overlay, read_toml
from dragoman.text.dataset_names import check_datasets
from dragoman.text.mixture import WeightedCorpus
from dragoman.text.settings import BatchSettings, CorpusFiles, DataSettings, TokenizerSettings, with_symbols
from dragoman.training.settings import Optimizer, ScheduleName, TrainingSettings

Baseline = Literal["rnn", "conv", "rnn-enriched", "conv-enriched", "restricted"]
Preset = Literal["auto", "tiny", "small", "base", "big", Baseline, "student", "student-tiny"]


@dataclass(frozen=True)
class Recipe:
    """All settings of a run.

    One that is None is chosen from the corpus and the machine, printed, and written to recipe.toml.
    """

    out: Path | None = None
    """The run's folder. The same command resumes an interrupted run."""
    preset: Preset = "auto"
    """Sizes of the model, unless they are set one by one; `base` and `big` are the paper's, and the students
    are for `distil`."""
    data: DataSettings = field(default_factory=DataSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    search: SearchSettings = field(default_factory=lambda: SearchSettings(max_extra_tokens=EXTRA_TOKENS))
    adaptation: AdaptationSettings = field(default_factory=AdaptationSettings)

    @property
    def folder(self) -> Path:
        """The run's folder. Raises `DragomanError` if the recipe has none."""
        if self.out is None or self.out == Path():
            raise OptionError("A run needs its own folder, such as runs/NAME; name it with {out}.")
        return self.out


def learning_rate_schedule(recipe: Recipe) -> ScheduleName:
    """The recipe's schedule, or its default: see `TrainingSettings.schedule`."""
    has_trapezoid = recipe.preset in ("tiny", "small") and is_new_with_pre_norm(recipe)
    return recipe.training.schedule or ("trapezoid" if has_trapezoid else "paper")


def optimizer_of(recipe: Recipe) -> Optimizer:
    """The recipe's optimizer, or its default: see `TrainingSettings.optimizer`."""
    training = recipe.training
    has_muon = (
        recipe.preset == "tiny"
        and is_new_with_pre_norm(recipe)
        and training.precision != "float32"  # in which Muon's own products take too long
        and not training.shard
    )
    return training.optimizer or ("muon" if has_muon else "adam")


def is_new_with_pre_norm(recipe: Recipe) -> bool:
    """Whether a model with pre-norm is trained from random weights, for which few updates suffice."""
    return recipe.model.norm == "pre" and recipe.adaptation.initial_model is None


def choose_minutes(training: TrainingSettings, gpu: bool) -> float:
    """The minutes of a run without a number of updates: those that are set, or 45, and 180 with a GPU.

    With `stop_at` they are those until then, if these are fewer or none are set.
    """
    if training.stop_at is not None:
        left = round(max(0.01, seconds_until(training.stop_at) / 60), 2)
        return min(left, training.minutes or left)
    return training.minutes or (180.0 if gpu else 45.0)


def read_recipe(out: Path) -> Recipe:
    """The recipe of a run. Raises `DragomanError` if it cannot be read."""
    path = out / "recipe.toml"
    return replace(overlay(Recipe(), read_toml(path), str(path)), out=out)


def check_recipe(recipe: Recipe) -> None:
    """Raise `DragomanError` for wrong types, contradictions, and without a folder or training data."""
    check_types(recipe)
    if PRESETS.get(recipe.preset, recipe.model) != recipe.model == ModelSettings():
        raise DragomanError(f"The preset is {recipe.preset}, but the model is base; use dragoman.train.")
    if recipe.model.architecture not in ("lstm", "gru", "conv"):
        recipe.model.check_head_widths()
    data = recipe.data
    check_datasets(data.datasets, any((data.source, data.target, data.valid_source, data.test_source)))
    if not data.datasets and not data.needs_conversion() and (data.source is None or data.target is None):
        raise OptionError(
            "Training needs two text files, {source} and {target}, with line n of one translated by line n "
            "of the other; or {source} alone, a file with both sides, which ends in .tmx, .tsv or .jsonl."
        )
    check_file_pairs(data)
    check_language_pairs(recipe)
    _ = recipe.folder
    if recipe.training.optimizer == "muon" and recipe.training.shard:
        raise OptionError("{shard} divides the matrices that {optimizer} muon needs whole; leave one out.")
    if recipe.training.optimizer == "muon" and recipe.adaptation.lora_rank is not None:
        raise OptionError("{lora_rank} trains its matrices with Adam; leave it or {optimizer} muon out.")
    source_kind, target_kind = recipe.tokenizer.source_tokens, recipe.tokenizer.target_tokens
    if recipe.tokenizer.share_vocabulary and target_kind not in (None, source_kind):
        raise OptionError(
            f"Source tokens are {source_kind} and target tokens {target_kind}; they cannot share a "
            "vocabulary. Add {share_vocabulary=False}."
        )


def check_language_pairs(recipe: Recipe) -> None:
    """Raise `DragomanError` for settings that are not for several pairs of languages."""
    data = recipe.data
    if len(data.pairs) < 2:
        return
    if data.terms:
        raise OptionError("{terms} is for one pair of languages, and the text has several; leave it out.")
    if recipe.adaptation.replay is not None or recipe.adaptation.replay_valid is not None:
        raise OptionError("{replay} is for one pair of languages, and the text has several; leave it out.")
    symbols = {pair.symbol for pair in with_symbols(data.pairs)}
    if taken := symbols.intersection([*recipe.tokenizer.symbols, *(corpus.tag for corpus in data.corpus)]):
        raise OptionError(
            f"{min(taken)} stands for a target language, and is also a tag or one of {{symbols}}; leave that "
            "out."
        )


def check_file_pairs(data: DataSettings) -> None:
    """Raise `DragomanError` for a validation or test file without its other side.

    Text that needs conversion is checked by `check_files`.
    """
    for kind in () if data.needs_conversion() else ("valid", "test"):
        sides = [side for side in ("source", "target") if f"{kind}_{side}" in data.files]
        if len(sides) == 1:
            raise OptionError(
                f"There is only {{{kind}_{sides[0]}}}; give {{{kind}_source}} and {{{kind}_target}}."
            )


def resolve_paths(data: DataSettings) -> DataSettings:
    """The settings with every path in its folder, or that of the compressed file.

    Raises `DragomanError` for a missing file.
    """
    paths: dict[str, Any] = dict(data.files)
    for name, path in paths.items():
        files = (Path(f"{path}{ending}") for ending in ("", ".gz", ".zst"))
        paths[name] = next(filter(Path.is_file, files), None)
        if paths[name] is None:
            reason = "which is not a regular file: it is read several times"
            raise OptionError(
                f"{{{name}}} is {{path}}, {reason if path.exists() else 'and there is no such file'}.",
                path=path,
            )
    return replace(data, folder=None, **paths)


def resolve_corpora(data: DataSettings) -> tuple[WeightedCorpus, ...]:
    """The corpora of the settings, with every path in the folder. Raises as `resolve_paths`."""

    def resolved(corpus: WeightedCorpus) -> WeightedCorpus:
        names = [field.name for field in fields(CorpusFiles) if field.name != "folder"]
        paths: dict[str, Any] = {name: getattr(corpus, name) for name in names}
        files = resolve_paths(DataSettings(folder=data.folder, **paths))
        return replace(corpus, **{name: getattr(files, name) for name in names})

    return tuple(map(resolved, data.corpus))
