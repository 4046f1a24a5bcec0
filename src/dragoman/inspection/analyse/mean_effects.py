"""The mean effect of each head over the lines of a file, with confidence intervals by bootstrap.

Shapes: P lines, L layers, H heads, R resamples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dragoman.inspection.analyse.ablation import pair_effects, translated_pairs
from dragoman.inspection.record.inspected import is_blank, one_transformer
from dragoman.inspection.record.kinds import KINDS
from dragoman.inspection.record.record import Array
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.translation.translator import Translator

RESAMPLES, SEED, CONFIDENCE = 1_000, 1, 0.95
MIN_LINES = 10  # for an interval to mean anything


@dataclass(frozen=True)
class Interval:
    """Means over lines, in nats, and the percentiles of resampled means that hold 95 % of them [L H]."""

    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class MeanHeadEffects:
    """The change of the log-probability of translations without each head."""

    lines: int
    log_probability: float
    """With all heads: the mean over the lines, in nats."""
    encoder: Interval
    """Of each head of encoder self-attention [L H]."""
    decoder: Interval
    """Of decoder self-attention [L H]."""
    cross: Interval
    """Of encoder-decoder attention [L H]."""


def mean_head_effects(
    translator: Translator,
    lines: Sequence[str],
    settings: SearchSettings,
    progress: Callable[[int, int], None] = lambda done, heads: None,  # noqa: ARG005
) -> MeanHeadEffects:
    """Translate the lines, and average the effect of each head on the translations. Blank lines are left out.

    Raises `DragomanError` if all lines are blank, as `Translator.n_best`, and as `head_effects`.
    """
    lines = [line for line in lines if not is_blank(translator, line)]
    if not lines:
        raise DragomanError("All lines of the file are blank: no head contributes to them.")
    one_transformer(translator)  # raises before the lines are translated
    pairs = translated_pairs(translator, lines, settings)
    log_probs, effects = pair_effects(translator, pairs, progress)
    return MeanHeadEffects(len(lines), float(log_probs.mean()), *(interval(effects[kind]) for kind in KINDS))


def interval(effects: Array) -> Interval:
    """The mean of effects [P L H] over lines, and its interval, by lines drawn with replacement."""
    lines = len(effects)
    drawn = np.random.default_rng(SEED).multinomial(lines, np.full(lines, 1 / lines), RESAMPLES)  # [R P]
    means = np.tensordot(drawn / lines, effects, 1)  # [R L H]
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return Interval(effects.mean(0), low.astype(np.float32), high.astype(np.float32))


def mean_effects_json(effects: MeanHeadEffects) -> dict[str, Any]:
    """The effects as a table of numbers; lists are [layer][head]."""
    tables = {kind: vars(getattr(effects, kind)) for kind in KINDS}
    return {
        "version": 1,
        "lines": effects.lines,
        "log_probability": effects.log_probability,
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        **{kind: {name: array.tolist() for name, array in table.items()} for kind, table in tables.items()},
    }
