"""What a recipe stands for: its model, its objective, its batches and its schedule."""

import torch

from dragoman.model.build import build_model
from dragoman.model.interface import Model
from dragoman.pipeline.prepare import Prepared
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.system.machine import is_out_of_memory
from dragoman.text.batches import Batches
from dragoman.training.context import Schedule
from dragoman.training.distributed import World
from dragoman.training.objective import Objective


def make_model(recipe: Recipe, data: Prepared, device: torch.device) -> Model:
    """Fresh weights, the same for the same seed.

    Raises `DragomanError` where settings and vocabularies contradict each other, or memory does not suffice.
    """
    torch.manual_seed(recipe.training.seed)
    try:
        return build_model(recipe.model, len(data.tokenizers.source), len(data.tokenizers.target)).to(device)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise DragomanError("The memory does not suffice for a model of this size; choose a smaller --preset, or smaller sizes.") from error


def make_objective(recipe: Recipe, model: Model) -> Objective:
    """The model with its loss."""
    return Objective.of(model, recipe.training)


def make_batches(recipe: Recipe, data: Prepared, world: World) -> Batches:
    """The training batches of this process."""
    batches = recipe.batches
    assert batches.source_tokens_per_batch is not None
    assert batches.target_tokens_per_batch is not None
    assert not isinstance(batches.max_tokens, str)
    return Batches(
        data.train,
        batches.source_tokens_per_batch,
        batches.target_tokens_per_batch,
        recipe.training.seed,
        batches.accumulate,
        batches.max_tokens,
        world.rank,
        world.size,
    )


def schedule_of(recipe: Recipe) -> Schedule:
    """The numbers that the loop needs, all chosen."""
    training = recipe.training
    assert training.updates
    assert training.warmup_steps
    assert training.validate_every
    assert training.checkpoint_every
    return Schedule(
        updates=training.updates,
        warmup_steps=training.warmup_steps,
        validate_every=training.validate_every,
        checkpoint_every=training.checkpoint_every,
    )
