"""A recipe: all settings of a run, each defined once, and rules for those that it leaves open.

Does not import torch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.messages import Say
from dragoman.system.toml import overlay, read_toml
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings

PAPER_UPDATES, MOST_PASSES = 100_000, 200  # bounds of a chosen number of updates
Preset = Literal["auto", "tiny", "small", "base", "big"]


@dataclass(frozen=True)
class Recipe:
    """All settings of a run.

    One that is None is chosen from the corpus and the machine, printed, and written to recipe.toml.
    """

    out: Path | None = None
    """The run's folder. The same command resumes an interrupted run."""
    preset: Preset = "auto"
    """Sizes of the model, unless they are set one by one; `base` and `big` are the paper's."""
    data: DataSettings = field(default_factory=DataSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    search: SearchSettings = field(default_factory=SearchSettings)


def complete_recipe(
    table: dict[str, Any], origin: str, flags: Callable[[Recipe], Recipe], gpu: Callable[[], bool], say: Say
) -> Recipe:
    """The recipe of a TOML table (read from `origin`) and of flags.

    Flags win over the table, and both over the preset. `flags` returns a recipe with the command line's flags
    applied; `gpu` says whether there is a GPU; `say` gets the preset that was chosen. Raises `DragomanError`
    for unknown keys, wrong values, contradictions and missing training data.
    """
    asked = flags(overlay(Recipe(), {key: value for key, value in table.items() if key != "model"}, origin))
    preset, model = asked.preset, PRESETS.get(asked.preset, ModelSettings())
    choose = preset == "auto"
    if choose:
        preset, model = choose_preset(asked.data, gpu())
    recipe = replace(flags(overlay(replace(asked, model=model), table, origin)), preset=preset)
    check_recipe(recipe)
    if choose and replace(recipe.model, dropout=model.dropout) == model:
        size = f"{text_size(asked.data) / 1e6:.1f} MB of text and {'a' if gpu() else 'no'} GPU"
        say(
            f"Chosen: preset {preset}{f' with dropout {model.dropout}' * (recipe.model == model)}, for "
            f"{size}."
        )
    if recipe.tokenizer.share_vocabulary is False and recipe.model.tied == "all":
        recipe = replace(recipe, model=replace(recipe.model, tied="target"))
    return recipe


def read_recipe(out: Path) -> Recipe:
    """The recipe of a run. Raises `DragomanError` if it cannot be read."""
    path = out / "recipe.toml"
    return replace(overlay(Recipe(), read_toml(path), str(path)), out=out)


def check_recipe(recipe: Recipe) -> None:
    """Raise `DragomanError` for contradicting settings, and without a folder or training data."""
    if recipe.model.architecture == "transformer":
        _ = recipe.model.key_width, recipe.model.value_width  # raises if heads do not divide d_model
    data = recipe.data
    if data.dataset is not None and any((data.source, data.target, data.valid_source, data.test_source)):
        raise DragomanError(
            f"The dataset {data.dataset!r} has its own files; leave --dataset out to train on yours."
        )
    if data.dataset is None and (data.source is None or data.target is None):
        raise DragomanError(
            "Training needs two text files: --source FILE --target FILE, with line n of one translated by "
            "line n of the other."
        )
    check_file_pairs(data)
    if recipe.out in (None, Path()):
        raise DragomanError(
            'A run needs its own folder: --out runs/NAME, or out = "runs/NAME" in the recipe.'
        )
    source_kind, target_kind = recipe.tokenizer.source_tokens, recipe.tokenizer.target_tokens
    if recipe.tokenizer.share_vocabulary and target_kind not in (None, source_kind):
        raise DragomanError(
            f"Source tokens are {source_kind} and target tokens {target_kind}; they cannot share a "
            "vocabulary. Add --no-share-vocabulary."
        )


def check_file_pairs(data: DataSettings) -> None:
    """Raise `DragomanError` for a validation or test file without its other side."""
    for kind in ("valid", "test"):
        if (f"{kind}_source" in data.files) != (f"{kind}_target" in data.files):
            raise DragomanError(
                f"{kind}_source and {kind}_target belong together, and one of them is missing."
            )


def resolve_paths(data: DataSettings) -> DataSettings:
    """The settings with every path in its folder, or that of the gzip file.

    Raises `DragomanError` for a missing file.
    """
    paths: dict[str, Any] = dict(data.files)
    for name, path in paths.items():
        packed = path.with_name(f"{path.name}.gz")
        if not path.exists() and packed.is_file():
            paths[name] = packed
            continue
        if path.exists() and not path.is_file():
            raise DragomanError(f"{name} is {path}, which is not a regular file: it is read several times.")
        if not path.is_file():
            raise DragomanError(f"{name} is {path}, and there is no such file.")
    return replace(data, folder=None, **paths)


# ---- what a recipe leaves open


def choose_preset(data: DataSettings, gpu: bool) -> tuple[Preset, ModelSettings]:
    """Sizes for the text and the machine.

    More text and a GPU allow larger sizes; little text needs more dropout.
    """
    megabytes = text_size(data) / 1e6
    name: Preset = ("base" if megabytes > 50 else "small") if gpu else ("small" if megabytes > 1 else "tiny")
    # On a CPU, few passes over a larger text do not need much dropout (experiments/LOG.md).
    little = 20 if gpu else 8
    return name, replace(PRESETS[name], dropout=0.3 if megabytes < little else 0.1)


def text_size(data: DataSettings) -> int:
    """Bytes of the training files (gzip files count three times); 5 million for a named dataset."""
    if data.dataset is not None or data.source is None or data.target is None:
        return 5_000_000
    files = resolve_paths(
        DataSettings(source=data.source, target=data.target, folder=data.folder)
    ).files.values()
    return sum(path.stat().st_size * (3 if path.suffix == ".gz" else 1) for path in files)


def choose_vocabulary(recipe: Recipe, pairs: int) -> int:
    """About 40 · √pairs tokens: 7,000 for 30,000 pairs, the paper's 37,000 for a million and more.

    At most 10,000 for a small model.
    """
    most = 37_000 if recipe.model.d_model >= 512 else 10_000
    return min(most, max(400, round(40 * pairs**0.5)))


def choose_batch_tokens(target_tokens: int, gpu: bool) -> int:
    """A 200th of the corpus, so that even a small one gives enough updates.

    At most the paper's 25,000 (4,096 on a CPU).
    """
    return min(25_000 if gpu else 4_096, max(1_024, target_tokens // 200))


def choose_updates(minutes: float, updates_per_epoch: int, updates_per_second: float) -> int:
    """As many as fit into the minutes, but at most the paper's 100,000 and 200 passes over the corpus."""
    return max(1, min(PAPER_UPDATES, MOST_PASSES * updates_per_epoch, int(minutes * 60 * updates_per_second)))


def choose_schedule(recipe: Recipe, updates: int) -> Recipe:
    """Warm-up and intervals for a number of updates."""
    training = recipe.training
    every = training.validate_every or min(1000, max(1, updates // 20))
    return replace(
        recipe,
        training=replace(
            training,
            updates=updates,
            warmup_steps=training.warmup_steps or choose_warmup(updates, recipe.model.d_model),
            validate_every=every,
            checkpoint_every=training.checkpoint_every or every,
        ),
    )


def choose_warmup(updates: int, d_model: int) -> int:
    """An eighth of the updates, or more to keep the rate at 0.002 or below; at most the paper's 4000.

    Never more than half of the updates: a shorter run would end during the warm-up. Its peak rate may exceed
    0.002.
    """
    return max(1, min(4000, max(updates // 8, 250_000 // d_model), updates // 2))
