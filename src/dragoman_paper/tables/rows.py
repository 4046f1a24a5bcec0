"""A table of experiments as data: its rows, and the scales that it can be trained at. Imports no torch."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from dragoman.model.settings import ModelSettings
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings
from dragoman_paper.tables.published import PAPER_SEARCH

PAPER_UPDATES = 100_000
DEFAULTS = asdict(ModelSettings())
WIDTHS, DEPTHS = ("d_model", "d_ff", "d_k", "d_v"), ("encoder_layers", "decoder_layers")


@dataclass(frozen=True)
class Row:
    """A row at the paper's size, with the paper's figures; None is a figure that the paper leaves out."""

    name: str
    """The group's letter and a number, as `B2`; a row without a group has a word."""
    model: ModelSettings
    label_smoothing: float = 0.1
    updates: int = PAPER_UPDATES
    perplexity: float | None = None
    bleu: float | None = None
    parameters: int | None = None
    """In millions."""

    @property
    def group(self) -> str:
        """The paper's letter, or the name."""
        return self.name[0] if self.name[1:].isdigit() else self.name


@dataclass(frozen=True)
class Scale:
    """How a table's rows are trained: on which text, and how much smaller than in the paper."""

    name: str
    data: DataSettings
    """Training and validation files, in the folder that the user names."""
    about: str
    """The text, in words."""
    vocabulary: int
    tokens: int
    """Source tokens of a batch, and target tokens."""
    updates: int
    """In the place of the paper's 100,000; a row with more has more in proportion."""
    warmup_steps: int
    width: int = 1
    """Widths (d_model, d_ff, d_k, d_v) are divided by this."""
    depth: int = 1
    """Numbers of layers are divided by this."""
    learning_rate_scale: float = 1.0
    precision: Literal["float32", "bfloat16"] | None = None
    dataset: str | None = None
    """The named dataset to use if the user names no folder."""

    def quick(self) -> "Scale":
        """A fifth of the updates with the same peak of the learning rate, under another name."""
        return replace(
            self,
            name=f"{self.name}-quick",
            updates=self.updates // 5,
            warmup_steps=self.warmup_steps // 5,
            learning_rate_scale=self.learning_rate_scale * 5**-0.5,
        )

    def model(self, settings: ModelSettings) -> ModelSettings:
        """The settings at this scale."""
        divisors = dict.fromkeys(WIDTHS, self.width) | dict.fromkeys(DEPTHS, self.depth)
        sizes = {name: getattr(settings, name) for name in divisors}
        return replace(
            settings,
            **{name: size // divisors[name] for name, size in sizes.items() if size is not None},
        )

    def recipe(self, row: Row, seed: int, data: DataSettings) -> Recipe:
        """The recipe of a row. Every row has the same text, batches and schedule.

        Its one validation is at the end: the model is the last checkpoint's, without a mean (Table 3).
        """
        updates = self.updates * row.updates // PAPER_UPDATES
        return Recipe(
            preset="base",
            data=data,
            tokenizer=TokenizerSettings(vocabulary=self.vocabulary),
            model=self.model(row.model),
            batches=BatchSettings(source_tokens_per_batch=self.tokens, target_tokens_per_batch=self.tokens),
            training=TrainingSettings(
                updates=updates,
                warmup_steps=self.warmup_steps,
                learning_rate_scale=self.learning_rate_scale,
                label_smoothing=row.label_smoothing,
                precision=self.precision,
                seed=seed,
                validate_every=updates,
                checkpoint_every=max(1, min(1000, updates // 5)),
                average=1,
                best_by="loss",
                patience=0,
            ),
            search=PAPER_SEARCH,
        )


@dataclass(frozen=True)
class Table:
    """A table of the paper: rows to compare with the first one, and the scales that it can be trained at."""

    name: str
    title: str
    rows: tuple[Row, ...]
    scales: tuple[Scale, ...]

    def scale(self, name: str) -> Scale:
        """The scale of this name. Raises `DragomanError` if there is none."""
        scales = {scale.name: scale for scale in self.scales}
        if name not in scales:
            raise DragomanError(f"There is no scale {name!r} of {self.name}; there are: {', '.join(scales)}.")
        return scales[name]

    def choose(self, names: str) -> list[Row]:
        """The rows of these names or groups, separated by commas, and the first row, which all are compared
        with. No name is all rows.

        Raises `DragomanError` for a name that is neither a row nor a group.
        """
        requested = [name.strip() for name in names.split(",") if name.strip()]
        known = {row.name for row in self.rows} | {row.group for row in self.rows}
        for name in requested:
            if name not in known:
                groups = dict.fromkeys(row.group for row in self.rows if row.group != row.name)
                row_names = ", ".join(row.name for row in self.rows)
                and_groups = f", and the groups {', '.join(groups)}" if groups else ""
                raise DragomanError(
                    f"{self.name} has no row {name!r}; it has the rows {row_names}{and_groups}."
                )
        base, *others = self.rows
        return [base, *(row for row in others if not requested or {row.name, row.group} & {*requested})]


def differences(settings: ModelSettings, base: ModelSettings) -> dict[str, Any]:
    """The settings of a model that are not those of another, among them a d_k or d_v that is None and follows
    from other settings.
    """
    changed = {
        field.name: getattr(settings, field.name)
        for field in fields(ModelSettings)
        if getattr(settings, field.name) != getattr(base, field.name)
    }
    for name, width in (("d_k", "key_width"), ("d_v", "value_width")):
        if getattr(settings, width) != getattr(base, width):
            changed[name] = getattr(settings, width)
    return changed


def describe(row: Row, scale: Scale, base: Row) -> str:
    """What a row changes of the first one, at a scale: `heads 1, d_k 128, d_v 128`."""
    changes = differences(scale.model(row.model), scale.model(base.model))
    if row.model.architecture != base.model.architecture:
        # It may have no use for a setting that it leaves at its default.
        changes = {name: changes[name] for name in changes if getattr(row.model, name) != DEFAULTS[name]}
    if {*DEPTHS} <= changes.keys() and changes["encoder_layers"] == changes["decoder_layers"]:
        changes["N"] = changes.pop("encoder_layers")
        del changes["decoder_layers"]
    if row.label_smoothing != base.label_smoothing:
        changes["label_smoothing"] = row.label_smoothing
    if row.updates != base.updates:
        changes["updates"] = f"{scale.updates * row.updates // PAPER_UPDATES:,}"
    return ", ".join(f"{name} {value}" for name, value in changes.items())


def describe_base(scale: Scale, base: Row) -> str:
    """The sizes of the first row at a scale."""
    model = scale.model(base.model)
    return (
        f"N {model.encoder_layers}, d_model {model.d_model}, d_ff {model.d_ff}, heads {model.heads}, "
        f"d_k {model.key_width}, d_v {model.value_width}, dropout {model.dropout}, label_smoothing "
        f"{base.label_smoothing}, updates {scale.updates:,}"
    )
