"""What the training loop is given, and the error that it raises."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from dragoman.model.interface import Model
from dragoman.system.errors import OptionError
from dragoman.text.batches import Batches
from dragoman.training.events import Observer
from dragoman.training.objective import Objective, make_optimizer
from dragoman.training.settings import Schedule, TrainingSettings
from dragoman.training.world import World

Scores = dict[str, float]
"""Scores of a validation: `loss` and `nll` in nats per token, `perplexity`, `bleu`."""
Samples = list[dict[str, str]]
"""Samples of a validation: `source`, `reference` and `translation` of some pairs."""
Validate = Callable[[Model, str], tuple[Scores, Samples]]
"""A validation of a model, as `TrainingContext.validate` describes it."""


@dataclass(frozen=True)
class TrainingContext:
    """A model, its training data, and what the loop calls."""

    model: Model
    learning_rate: Callable[[int], float]
    """The learning rate by the number of the update, from 1."""
    batches: Batches
    settings: TrainingSettings
    schedule: Schedule
    folder: Path
    """Gets log.jsonl and checkpoints/. Training resumes from the checkpoints that it has."""
    validate: Validate
    """Translates and scores the validation pairs. Its second argument is a phrase for its message, such as
    `at update 100`."""
    keep_best: Callable[[Model], None]
    """Called with the model when a validation is better than all before it, in the main process alone."""
    world: World
    max_seconds: float = math.inf
    """Training ends after so many seconds, those of earlier processes that it resumes included."""
    planned_seconds: float = math.inf
    """How long the whole training will take, for the progress bar. It is infinite if the number of updates
    says when the training ends."""
    observer: Observer = field(default_factory=Observer)
    """Is told of each event, in the main process alone, and may end the training."""
    make_optimizer: Callable[[nn.Module], torch.optim.Adam] = make_optimizer
    make_objective: Callable[[Model, TrainingSettings], nn.Module] = Objective.of


class DivergenceError(OptionError):
    """The loss, the gradient or the weights are NaN or infinite."""

    def __init__(self, finding: str, remedy: str) -> None:
        """`finding` is what was seen, and `remedy` what the user can do, with names of settings in braces."""
        super().__init__(f"{{finding}} {remedy}", finding=finding)
        self.finding, self.remedy = finding, remedy

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return type(self), (self.finding, self.remedy)
