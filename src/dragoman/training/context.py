"""All that the training loop is given."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.model.interface import Model
from dragoman.text.batches import Batches
from dragoman.training.distributed import World
from dragoman.training.objective import Objective
from dragoman.training.settings import TrainingSettings

Say = Callable[[str], None]
Samples = list[dict[str, str]]
Validate = Callable[[Model], tuple[dict[str, float], Samples]]


@dataclass(frozen=True)
class Schedule:
    """The numbers of a run that a recipe may leave open, chosen: all but the flag in updates."""

    updates: int
    warmup_steps: int
    validate_every: int
    checkpoint_every: int


@dataclass(frozen=True)
class Job:
    """A model, the batches that it is to learn, and what is to happen on the way."""

    model: Model
    width: int
    """d_model, for the learning rate."""
    batches: Batches
    settings: TrainingSettings
    schedule: Schedule
    folder: Path
    """Gets log.jsonl and checkpoints/; what is there already is gone on from."""
    validate: Validate
    keep_best: Callable[[Model], None]
    """Called whenever validation finds a better model."""
    say: Say
    """Gets sentences for people."""
    world: World

    @property
    def shards(self) -> bool:
        """Whether weights are spread over the processes."""
        return self.settings.shard and self.world.size > 1

    def objective(self, model: Model) -> Objective:
        """What is minimised, of this model or a copy of it."""
        return Objective.of(model, self.settings)
