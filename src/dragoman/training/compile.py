"""Layers compiled by torch.compile (`--compile`), and copies of models without that and with all weights."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch

from dragoman.model.interface import Model
from dragoman.model.weights import load_weights, weights
from dragoman.system.errors import DragomanError
from dragoman.training.context import TrainingContext
from dragoman.training.world import unsharded_on_cpu


@contextmanager
def compiled(model: Model) -> Iterator[None]:
    """Compile a model's layers, and raise errors of the compiler as a `DragomanError`, also later ones."""
    with compiler_errors():
        compile_layers(model)
        yield


def compile_layers(model: Model) -> None:
    """Compile each layer with torch.compile, for sentences of any length.

    Raises `DragomanError` if the model has no layers, or if there is no compiler.
    """
    if not model.layers():
        raise DragomanError(
            "--compile is for the Transformer and ConvS2S; this architecture has no layers to compile. Leave "
            "it out."
        )
    # It logs a traceback of the error that is raised too.
    logging.getLogger("torch._functorch").setLevel(logging.ERROR)
    with compiler_errors():
        # Fails at once if nothing can be compiled.
        torch.compile(torch.Tensor.neg)(next(model.parameters()).detach()[:1])
    for layer, _ in model.layers():
        layer.compile(dynamic=True)


@contextmanager
def compiler_errors() -> Iterator[None]:
    """Raise the errors of torch.compile as a `DragomanError`."""
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        reason = str(error).splitlines()[0]
        raise DragomanError(f"torch.compile failed ({reason}). Train with --no-compile.") from error


def full_copies(context: TrainingContext) -> Callable[[], Model]:
    """A function that returns a copy of the model with all its weights in this process, not compiled.

    Called before the model is compiled or sharded. All processes call the function.
    """
    original = deepcopy(context.model).cpu()

    def full_copy() -> Model:
        copy = deepcopy(original)
        load_weights(copy, unsharded_on_cpu(weights(context.model), keep=True), context.folder)
        return copy.to(context.world.device)

    return full_copy
