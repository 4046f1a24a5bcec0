"""Copies of a model whose weights are sharded over processes."""

from collections.abc import Callable
from copy import deepcopy

from dragoman.model.interface import Model
from dragoman.model.weights import load_weights, weights
from dragoman.training.context import TrainingContext
from dragoman.training.world import unsharded_on_cpu


def full_copies(context: TrainingContext) -> Callable[[], Model]:
    """A function that returns a copy of the model with all its weights in this process.

    Called before the model is sharded. All processes call the function.
    """
    original = deepcopy(context.model).cpu()

    def full_copy() -> Model:
        copy = deepcopy(original)
        load_weights(copy, unsharded_on_cpu(weights(context.model), keep=True), context.folder)
        return copy.to(context.world.device)

    return full_copy
