"""A process with little memory: `cut_batches` runs in one that has imported nothing that it does not need."""

import re
import resource
import warnings
from pathlib import Path

import torch

from dragoman.pipeline.prepared import PreparedData, make_batches, make_model
from dragoman.pipeline.recipe import Recipe
from dragoman.system.errors import DragomanError
from dragoman.text.batches import Update
from dragoman.training.distributed import ProcessGroup
from dragoman.training.objective import Objective, accumulate_gradients, corpus_loss
from dragoman.training.world import World

HERE = World(device=torch.device("cpu"))


def cut_batches(recipe: Recipe, result: Path) -> None:
    """Compute a gradient with little memory, and compare it with that of the batch at once.

    The limit is real, and the kernel's. Writes into how many batches it was cut. `recipe` is of a run whose
    text is prepared, and has no dropout.
    """
    data = PreparedData.load(recipe.out / "data")
    model, batches = make_model(recipe, data, HERE.device).double(), make_batches(recipe, data, HERE)
    objective = Objective.of(model, recipe.training)
    batch = batches.load(list(range(len(data.train))) * 8)
    update = Update(0, 1, [batch], batch.tokens)
    pair = batches.load([0])  # starts all threads: one that gets no memory ends the process
    accumulate_gradients(objective, Update(0, 1, [pair], pair.tokens), HERE)
    model.zero_grad()
    calls = []
    objective.register_forward_hook(lambda *_: calls.append(1))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, limits[1]))
    refused = ""
    try:  # where batches cannot be cut: the other process would not know
        accumulate_gradients(objective, update, ProcessGroup(size=2, device=HERE.device))
    except DragomanError as error:
        refused = str(error)
    model.zero_grad()
    calls.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        accumulate_gradients(objective, update, HERE)
    into = len(calls)
    calls.clear()
    loss = corpus_loss(objective, update.batches, HERE)
    assert len(calls) > 1
    resource.setrlimit(resource.RLIMIT_AS, limits)
    advice = r"not enough memory for [\d,]+ pairs at once; train with a lower micro_batch_tokens\."
    assert re.search(advice, refused), refused
    until_then = f"{advice} Until then gradients are accumulated from smaller batches\\."
    assert any(re.search(until_then, str(warning.message)) for warning in caught), caught
    result.write_text(str(into))
    cut = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    calls.clear()
    accumulate_gradients(objective, update, HERE)
    assert len(calls) == 1
    torch.testing.assert_close(loss, corpus_loss(objective, update.batches, HERE), rtol=1e-6, atol=0)
    for one, other in zip(cut, model.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad)
