"""All that the training loop is given."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.interface import Model
from dragoman.system.messages import Say
from dragoman.text.batches import Batches
from dragoman.training.distributed import World
from dragoman.training.objective import Objective
from dragoman.training.schedule import Schedule
from dragoman.training.settings import TrainingSettings

Scores = dict[str, float]
"""Of a validation: `loss` and `nll` in nats a token, `perplexity`, `bleu`."""
Samples = list[dict[str, str]]
"""Of a validation: `source`, `reference` and `translation` of some pairs."""
Validate = Callable[[Model, str], tuple[Scores, Samples]]


@dataclass(frozen=True)
class TrainingContext:
    """A model, its training data, and what the loop calls."""

    model: Model
    d_model: int
    """For the learning rate."""
    batches: Batches
    settings: TrainingSettings
    schedule: Schedule
    folder: Path
    """Gets log.jsonl and checkpoints/. Training resumes from the checkpoints that it has."""
    validate: Validate
    """Called with a model and what it is, for the message: `at update 100`."""
    keep_best: Callable[[Model], None]
    """Called when a validation is better than all before it."""
    say: Say
    world: World

    @property
    def shards_weights(self) -> bool:
        """Whether each process has a part of every weight."""
        return self.settings.shard and self.world.size > 1

    def objective(self, model: Model) -> Objective:
        """The training objective of this model or of a copy of it."""
        return Objective.of(model, self.settings)
