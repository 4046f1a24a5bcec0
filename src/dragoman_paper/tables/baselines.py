"""Baselines: what the paper compares the Transformer with, at equal parameters. This module is data.

Widths are chosen so that a row has within 5 % as many parameters as the first one, at the vocabulary of each
scale.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.model.settings import PRESETS
from dragoman.text.settings import DataSettings
from dragoman_paper.tables.rows import Row, Scale, Table
from dragoman_paper.tables.table3 import TABLE3

TRANSFORMER = replace(PRESETS["tiny"], heads=8, norm="post")

ROWS = (
    Row("transformer", TRANSFORMER),
    Row("restricted", replace(TRANSFORMER, neighbourhood=8)),
    Row("lstm", replace(PRESETS["rnn"], d_model=136)),
    Row("gru", replace(PRESETS["rnn"], architecture="gru", d_model=144)),
    Row("conv", replace(PRESETS["conv"], d_model=152, max_positions=256)),
    Row("lstm-enriched", replace(TRANSFORMER, architecture="lstm-enriched", positions="none", d_model=120)),
    Row("conv-enriched", replace(TRANSFORMER, architecture="conv-enriched", d_model=120)),
)
"""A row is one line: a preset, and the width that makes its parameters equal."""
TITLES = {
    "transformer": "Transformer",
    "restricted": "restricted Transformer",
    "lstm": "LSTM",
    "gru": "GRU",
    "conv": "ConvS2S",
    "lstm-enriched": "LSTM with the Transformer's parts",
    "conv-enriched": "ConvS2S with the Transformer's parts",
}
"""Of the rows, in the tables of a page."""


def own_sizes(name: str) -> Scale:
    """A scale of Table 3, for rows whose sizes are not the paper's."""
    return replace(TABLE3.scale(name), width=1, depth=1)


def with_test(scale: Scale, test: str) -> Scale:
    """The scale with test files of this name."""
    data = replace(scale.data, test_source=Path(f"{test}.en"), test_target=Path(f"{test}.de"))
    return replace(scale, data=data)


def without_test(data: DataSettings) -> DataSettings:
    """Training and validation files: test data takes no part in a choice."""
    return replace(data, test_source=None, test_target=None)


MULTI30K = with_test(own_sizes("multi30k"), "test2016")
# As many tokens as Multi30k has, so that 35 trials and 21 trainings take hours and not a day.
TATOEBA = replace(with_test(own_sizes("tatoeba"), "test"), tokens=MULTI30K.tokens, updates=MULTI30K.updates)

BASELINES = Table(
    "baselines",
    "Baselines at equal parameters, tuned by an equal number of trials",
    ROWS,
    (MULTI30K, TATOEBA),
)


@dataclass(frozen=True)
class Trial:
    """Settings of training that are tuned."""

    peak: float
    """The highest learning rate, at the end of the warm-up."""
    dropout: float

    @property
    def name(self) -> str:
        """As the folder of a trial is named."""
        return f"peak-{self.peak:g}-dropout-{self.dropout:g}"


TRIALS = (Trial(0.002, 0.1), Trial(0.004, 0.1), Trial(0.008, 0.1), Trial(0.016, 0.1), Trial(0.002, 0.2))
"""The trials of every row."""
TRIAL_SHARE = 4
"""A trial has the updates of a training divided by this, and so its warm-up."""
CLIP_NORM = 5.0
"""The largest gradient norm, for every row: recurrent models need a bound, and it rarely acts on others."""
VALIDATIONS = 6
"""Of a training; the model with the lowest loss is kept."""


@dataclass(frozen=True)
class Published:
    """Published scores of a recurrent model and a Transformer."""

    task: str
    recurrent: float
    transformer: float
    source: str


PUBLISHED = (
    Published(
        "IWSLT14 German to English, test, beam 5: a GRU with 60.69 M parameters, a Transformer with 19.18 M",
        27.34,
        31.00,
        "JoeyNMT, docs/benchmarks_v1.md",
    ),
)
