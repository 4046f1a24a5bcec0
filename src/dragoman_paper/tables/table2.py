"""Table 2 of the paper: BLEU on newstest2014 and the cost of training. This module is data.

Source: Vaswani et al. (2017), Table 2, sections 5 and 6.1. Imports no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dragoman.model.settings import PRESETS, ModelSettings
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.text.settings import BatchSettings, DataSettings, TokenizerSettings
from dragoman.training.settings import TrainingSettings
from dragoman_paper.tables.published import (
    PAPER_SEARCH,
    PAPER_TOKENS,
    PAPER_VOCABULARY,
    PAPER_VOCABULARY_FRENCH,
)

TITLE = "Table 2: BLEU on the test data and the cost of training"


@dataclass(frozen=True)
class TrainedRow:
    """A Transformer of the table: its recipe, and the paper's figures."""

    name: str
    model: ModelSettings
    dataset: str
    """The named dataset, which ends with the languages."""
    vocabulary: int
    updates: int
    checkpoint_every: int
    """Updates; the paper: 10 minutes of its machine."""
    average: int
    """Number of last checkpoints whose mean is the model (section 6.1)."""
    warmup_steps: int = 4_000
    tokens: int = PAPER_TOKENS
    """Source tokens of an update, and target tokens. Processes share them."""
    learning_rate_scale: float = 1.0
    precision: Literal["float32", "bfloat16"] | None = None
    bleu: float | None = None
    """In the paper, of tokens."""
    flops: float | None = None
    """In the paper."""

    @property
    def pair(self) -> str:
        """The languages, as `en-de`."""
        return "-".join(self.dataset.split("-")[-2:])

    def recipe(self, data: DataSettings) -> Recipe:
        """The recipe, with the paper's beam search. It has no test data: that is read once, at the end."""
        return Recipe(
            preset="base",
            data=data,
            tokenizer=TokenizerSettings(vocabulary=self.vocabulary),
            model=self.model,
            batches=BatchSettings(source_tokens_per_batch=self.tokens, target_tokens_per_batch=self.tokens),
            training=TrainingSettings(
                updates=self.updates,
                warmup_steps=self.warmup_steps,
                learning_rate_scale=self.learning_rate_scale,
                precision=self.precision,
                validate_every=max(1, self.updates // 20),
                checkpoint_every=self.checkpoint_every,
                average=self.average,
                best_by="loss",
                patience=0,
            ),
            search=PAPER_SEARCH,
        )


@dataclass(frozen=True)
class Published:
    """Another system of the paper's Table 2."""

    name: str
    pair: str
    bleu: float
    flops: float | None = None


BASE = TrainedRow(
    "base-en-de", PRESETS["base"], "wmt14-en-de", PAPER_VOCABULARY, 100_000, 1_400, 5, bleu=27.3, flops=3.3e18
)
BIG = TrainedRow(
    "big-en-de", PRESETS["big"], "wmt14-en-de", PAPER_VOCABULARY, 300_000, 600, 20, bleu=28.4, flops=2.3e19
)
PAPER = (
    BASE,
    BIG,
    replace(BASE, name="base-en-fr", dataset="wmt14-en-fr", vocabulary=PAPER_VOCABULARY_FRENCH, bleu=38.1),
    replace(
        BIG,
        name="big-en-fr",
        model=replace(BIG.model, dropout=0.1),  # section 6.1
        dataset="wmt14-en-fr",
        vocabulary=PAPER_VOCABULARY_FRENCH,
        bleu=41.8,
    ),
)


def rehearsal(row: TrainedRow) -> TrainedRow:
    """A row at the size of Multi30k: a quarter of the widths and half of the layers, in minutes.

    The peak of the learning rate is 0.002 for base, as in Table 3 at this scale.
    """
    model = row.model
    small = replace(
        model,
        d_model=model.d_model // 4,
        d_ff=model.d_ff // 4,
        encoder_layers=model.encoder_layers // 2,
        decoder_layers=model.decoder_layers // 2,
    )
    return replace(
        row,
        model=small,
        dataset="multi30k-en-de",
        vocabulary=6_000,
        updates=1_500,
        checkpoint_every=50,
        warmup_steps=400,
        tokens=2_048,
        learning_rate_scale=0.45,
        precision="bfloat16",
        bleu=None,
        flops=None,
    )


SCALES = {"paper": PAPER, "multi30k": (rehearsal(BASE), rehearsal(BIG))}

PUBLISHED = (
    Published("ByteNet", "en-de", 23.75),
    Published("Deep-Att + PosUnk", "en-fr", 39.2, 1.0e20),
    Published("GNMT + RL", "en-de", 24.6, 2.3e19),
    Published("GNMT + RL", "en-fr", 39.92, 1.4e20),
    Published("ConvS2S", "en-de", 25.16, 9.6e18),
    Published("ConvS2S", "en-fr", 40.46, 1.5e20),
    Published("MoE", "en-de", 26.03, 2.0e19),
    Published("MoE", "en-fr", 40.56, 1.2e20),
    Published("Deep-Att + PosUnk, ensemble", "en-fr", 40.4, 8.0e20),
    Published("GNMT + RL, ensemble", "en-de", 26.30, 1.8e20),
    Published("GNMT + RL, ensemble", "en-fr", 41.16, 1.1e21),
    Published("ConvS2S, ensemble", "en-de", 26.36, 7.7e19),
    Published("ConvS2S, ensemble", "en-fr", 41.29, 1.2e21),
)


def rows_of(scale: str) -> tuple[TrainedRow, ...]:
    """The rows at a scale. Raises `DragomanError` for an unknown one."""
    if scale not in SCALES:
        raise DragomanError(f"There is no scale {scale!r} of table2; there are: {', '.join(SCALES)}.")
    return SCALES[scale]


def choose(rows: Sequence[TrainedRow], names: str) -> list[TrainedRow]:
    """The rows of these names, separated by commas; none is all. Raises `DragomanError` for another."""
    requested = [name.strip() for name in names.split(",") if name.strip()]
    known = [row.name for row in rows]
    for name in requested:
        if name not in known:
            raise DragomanError(f"table2 has no row {name!r} at this scale; it has {', '.join(known)}.")
    return [row for row in rows if not requested or row.name in requested]
