"""The number of tokens at once that `auto` stands for: as many as fit into memory."""

from dataclasses import replace

import numpy as np

from dragoman.model.interface import Model
from dragoman.pipeline.prepared import PreparedData, make_batches
from dragoman.pipeline.recipe import Recipe
from dragoman.training.memory import fitting_tokens
from dragoman.training.objective import Objective
from dragoman.training.world import World

GRADIENT_AND_MOMENTS = 3  # times the bytes of the weights: what the first update allocates


def choose_micro_batch_tokens(model: Model, recipe: Recipe, data: PreparedData, world: World) -> int:
    """The number of tokens of the longest pairs that fit into memory at once."""
    objective = Objective.of(model, recipe.training)
    settings = replace(recipe.batches, micro_batch_tokens=None)
    batches = make_batches(replace(recipe, batches=settings), data, world)
    lengths = np.maximum(*batches.lengths)
    longest_first = np.argsort(-lengths)

    def forward(pairs: int) -> object:
        return objective(batches.load(longest_first[:pairs]).to(world.device))

    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    return fitting_tokens(
        forward, int(lengths.max()), max(batches.caps), world.device, GRADIENT_AND_MOMENTS * weights
    )
