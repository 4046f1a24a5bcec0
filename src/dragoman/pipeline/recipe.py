"""One recipe for a run: all its settings, each defined once, and the choices for those that it leaves open. No torch here."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.toml import overlay, to_table
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings

CHANGEABLE = (
    "batches.max_tokens",
    "training.updates",
    "training.learning_rate_scale",
    "training.clip_norm",
    "training.on_divergence",
    "training.patience",
    "training.log_every",
    "training.tensorboard",
    "training.shard",
    "training.native",
    "training.compile",
    "training.threads",
)
"""What a run may go on with otherwise than it was begun: its end, what helps where it diverged or does not fit, and what is only shown."""
Preset = Literal["auto", "tiny", "small", "base", "big"]


@dataclass(frozen=True)
class Recipe:
    """Everything about a run. What depends on the corpus or the machine and is None is chosen, printed, and written to recipe.toml."""

    out: Path | None = None
    """The run's folder. The same command on it again goes on where it was interrupted."""
    preset: Preset = "auto"
    """Sizes of the model, where they are not set one by one; `base` and `big` are the paper's."""
    data: DataSettings = field(default_factory=DataSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    search: SearchSettings = field(default_factory=SearchSettings)


def complete(
    table: dict[str, Any], origin: str, flags: Callable[[Recipe], Recipe], gpu: Callable[[], bool], say: Callable[[str], None]
) -> Recipe:
    """The recipe of a TOML table (read from `origin`) and of flags, which win; both win over the preset.

    `flags` gives a recipe with the command line's flags in place; `gpu` says whether there is one; `say` gets what was chosen.
    Raises `DragomanError` for keys and values that are wrong, and where there is nothing to train on.
    """
    asked = flags(overlay(Recipe(), {key: value for key, value in table.items() if key != "model"}, origin))
    preset, model = asked.preset, PRESETS.get(asked.preset, ModelSettings())
    chosen = preset == "auto"
    if chosen:
        preset, model = choose_preset(asked.data, gpu())
    recipe = flags(overlay(replace(asked, model=model), table, origin))
    recipe = replace(recipe, preset=preset)
    if chosen and replace(recipe.model, dropout=model.dropout) == model:
        text = f"{text_size(asked.data) / 1e6:.1f} MB of text and {'a' if gpu() else 'no'} GPU"
        say(f"Chosen: preset {preset}{f' with dropout {model.dropout}' * (recipe.model == model)}, for {text}.")
    if recipe.model.architecture == "transformer":
        _ = recipe.model.key_width, recipe.model.value_width  # before any work: refuses heads that do not divide d_model
    if recipe.tokenizer.share_vocabulary is False and recipe.model.tied == "all":
        recipe = replace(recipe, model=replace(recipe.model, tied="target"))
    if recipe.out in (None, Path()):
        raise DragomanError('A run needs a folder of its own: --out runs/NAME, or out = "runs/NAME" in the recipe.')
    data = recipe.data
    if data.dataset is not None and any((data.source, data.target, data.valid_source, data.test_source)):
        raise DragomanError(f"The dataset {data.dataset!r} brings its own files; leave --dataset out to train on yours.")
    source_kind, target_kind = recipe.tokenizer.source_tokens, recipe.tokenizer.target_tokens
    if recipe.tokenizer.share_vocabulary and target_kind not in (None, source_kind):
        raise DragomanError(
            f"Source tokens are {source_kind} and target tokens {target_kind}; they cannot share a vocabulary. Add --no-share-vocabulary."
        )
    if data.dataset is None and (data.source is None or data.target is None):
        raise DragomanError("Training needs two text files: --source FILE --target FILE, line n of one belonging to line n of the other.")
    refuse_one_sided(data)
    return recipe


def refuse_one_sided(data: DataSettings) -> None:
    """Raise `DragomanError` where there are validation or test sentences without translations, or translations without them."""
    for kind in ("valid", "test"):
        if (f"{kind}_source" in data.files) != (f"{kind}_target" in data.files):
            raise DragomanError(f"{kind}_source and {kind}_target belong together, and one of them is missing.")


def paths(data: DataSettings) -> DataSettings:
    """The settings with every path in its folder, or that of the packed file (.gz). Raises `DragomanError` for a file that is not there."""
    found: dict[str, Any] = dict(data.files)
    for name, path in found.items():
        packed = path.with_name(f"{path.name}.gz")
        if not path.exists() and packed.is_file():
            found[name] = packed
            continue
        if path.exists() and not path.is_file():
            raise DragomanError(f"{name} is {path}, which is no plain file: it is read several times.")
        if not path.is_file():
            raise DragomanError(f"{name} is {path}, and there is no such file.")
    return replace(data, folder=None, **found)


def choose_preset(data: DataSettings, gpu: bool) -> tuple[Preset, ModelSettings]:
    """Sizes that suit the text and the machine: more text and a GPU allow more, little text asks for more dropout."""
    megabytes = text_size(data) / 1e6
    name: Preset = ("base" if megabytes > 50 else "small") if gpu else ("small" if megabytes > 1 else "tiny")
    little = 20 if gpu else 8  # an hour on a CPU passes over 12 MB too seldom for much dropout to pay (experiments/LOG.md)
    return name, replace(PRESETS[name], dropout=0.3 if megabytes < little else 0.1)


def text_size(data: DataSettings) -> int:
    """Bytes of the training files (packed ones count three times); of a named dataset, some 5 million."""
    if data.dataset is not None or data.source is None or data.target is None:
        return 5_000_000
    found = paths(DataSettings(source=data.source, target=data.target, folder=data.folder))
    return sum(path.stat().st_size * (3 if path.suffix == ".gz" else 1) for path in (found.source, found.target) if path)


def choose_vocabulary(recipe: Recipe, pairs: int) -> int:
    """About 40 · √pairs tokens: 7,000 for 30,000 pairs, the paper's 37,000 for a million and more; fewer for a small model."""
    most = 37_000 if recipe.model.d_model >= 512 else 10_000
    return min(most, max(400, round(40 * pairs**0.5)))


def choose_batch_tokens(target_tokens: int, gpu: bool) -> int:
    """A 200th of the corpus, so that even a small one gives enough updates; at most the paper's 25,000 (4,096 on a CPU)."""
    return min(25_000 if gpu else 4_096, max(1_024, target_tokens // 200))


def choose_updates(minutes: float, updates_per_epoch: int, updates_per_second: float) -> int:
    """As many as fit into the minutes, but the paper's 100,000 and 200 passes over the corpus at most."""
    return max(1, min(100_000, 200 * updates_per_epoch, int(minutes * 60 * updates_per_second)))


def choose_schedule(recipe: Recipe, updates: int) -> Recipe:
    """The numbers that follow from the number of updates; warm-up is long enough for a rate of 0.002 at most, or 4000."""
    training = recipe.training
    every = training.validate_every or min(1000, max(1, updates // 20))
    return replace(
        recipe,
        training=replace(
            training,
            updates=updates,
            warmup_steps=training.warmup_steps or min(4000, max(updates // 8, 250_000 // recipe.model.d_model)),
            validate_every=every,
            checkpoint_every=training.checkpoint_every or every,
        ),
    )


Changes = dict[str, Any]  # dotted names of settings, and what they are to be


def flat(table: dict[str, Any], prefix: str = "") -> Changes:
    """A table of tables as one, with dotted names."""
    found: Changes = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def different(asked: Any, recorded: Any) -> Changes:
    """Settings that a command has and that a run was not started with. What is None or `auto` was left to choose, but for a search."""
    old, new = flat(to_table(recorded)), flat(to_table(asked))
    dropped = {key: None for key in old if key.startswith("search.") and key not in new}
    return {key: value for key, value in new.items() if value not in ("auto", old.get(key)) and key != "out"} | dropped


def changeable(key: str) -> bool:
    """Whether a run may go on with another value; how its test data is translated is asked only at the end."""
    return key in CHANGEABLE or key.startswith("search.")


def differences(asked: Recipe, recorded: Recipe) -> Changes:
    """What is different and must not be: the run would be another one."""
    return {key: value for key, value in different(asked, recorded).items() if not changeable(key)}


def changes(asked: Recipe, recorded: Recipe) -> Changes:
    """What is different and may be."""
    return {key: value for key, value in different(asked, recorded).items() if changeable(key)}


def changed(asked: Recipe, recorded: Recipe) -> Recipe:
    """The recorded recipe with what is different and may be. Raises `DragomanError` where the two do not go together."""
    tables: dict[str, Any] = {}
    for key, value in changes(asked, recorded).items():
        table, name = key.split(".")
        tables.setdefault(table, {})[name] = value
    tables.pop("search", None)  # taken as a whole
    return replace(overlay(recorded, tables, "the command line"), search=asked.search)


def describe_changes(new: Changes, recorded: Recipe | ModelSettings) -> list[str]:
    """Changes in words."""
    old = flat(to_table(recorded))
    return [f"{key} is {value!r} and was {old.get(key)!r}" for key, value in new.items()]
