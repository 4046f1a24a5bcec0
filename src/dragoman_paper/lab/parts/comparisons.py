"""When numbers of two models count as different, by the rules of lab/README.md; and weights that are kept
during a training, their mean, and what noise makes of them.
"""

import math
from collections.abc import Callable, Container, Sequence
from statistics import mean, stdev
from typing import Literal

import torch

from dragoman.model.interface import Model
from dragoman.model.settings import ModelSettings
from dragoman.model.weights import weights
from dragoman_paper.lab.parts.training import Task, examples, fresh, nll

Checkpoint = dict[str, torch.Tensor]
"""Weights by name. Those that are tied are there once: they are loaded with `strict=False`."""


def higher_for_each_seed(ones: Sequence[float], others: Sequence[float]) -> bool:
    """The rule for two uses of one model, and for two trainings from the same initial weights.

    Each sequence has a number for each seed, in the same order.
    """
    return all(value > other_value for value, other_value in zip(ones, others, strict=True))


def range_above(ones: Sequence[float], others: Sequence[float]) -> bool:
    """The rule for models that are trained separately: the least of the ones is above all others."""
    return min(ones) > max(others)


STUDENT = {4: (2.776, 3.495, 3.961, 4.315), 7: (2.365, 2.841, 3.128, 3.335)}
"""Student's t by degrees of freedom, for one to four intervals that are of 95 % together (Bonferroni)."""


def half_width(differences: Sequence[float], tests: int = 1) -> float:
    """Half of the interval of 95 % of their mean, of all tests together; infinite for one seed."""
    count = len(differences)
    if count == 1:  # in the quick form
        return math.inf
    return STUDENT[count - 1][tests - 1] * stdev(differences) / math.sqrt(count)


def compared(
    ones: Sequence[float], others: Sequence[float], tests: int = 1
) -> Literal["higher", "lower", "not clearly different"]:
    """How the ones are beside the others, which are paired by seed: the rule for five or eight trainings.

    The interval of 95 % of the mean difference decides: whether 0 lies outside of it, and on which side. If
    any one of several tests decides, `tests` is their number, and the interval is wider.
    """
    differences = [value - other_value for value, other_value in zip(ones, others, strict=True)]
    if abs(mean(differences)) <= half_width(differences, tests):
        return "not clearly different"
    return "higher" if mean(differences) > 0 else "lower"


def keeper(
    checkpoints: dict[int, Checkpoint], updates: Container[int]
) -> Callable[[int, Model, float], None]:
    """What `train` takes as `watch`, to keep the weights before each of these updates."""

    def watch(update: int, model: Model, nll: float) -> None:
        if update in updates:
            checkpoints[update] = {name: weight.clone() for name, weight in weights(model).items()}

    return watch


def loss_of(
    checkpoint: Checkpoint, settings: ModelSettings, task: Task, seed: int, count: int = 200
) -> float:
    """The nll a token of a model with these weights, on other texts than those of training."""
    model = fresh(settings, seed).eval()
    model.load_state_dict(checkpoint, strict=False)
    return nll(model, examples(task, seed, count))


def mean_weights(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """The mean of each weight."""
    return {
        name: torch.stack([checkpoint[name] for checkpoint in checkpoints]).mean(0) for name in checkpoints[0]
    }


def noisy(checkpoint: Checkpoint, size: float, count: int, seed: int) -> list[Checkpoint]:
    """So many checkpoints: this one with noise, whose size is relative to that of each matrix."""
    torch.manual_seed(seed)
    sizes = {name: size * weight.square().mean().sqrt() for name, weight in checkpoint.items()}
    return [
        {name: weight + sizes[name] * torch.randn_like(weight) for name, weight in checkpoint.items()}
        for _ in range(count)
    ]
