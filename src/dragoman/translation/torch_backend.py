"""Searches with PyTorch: every search, any model, any device. Shapes: B sentences, S source tokens."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.native.cuda_graphs import GraphSearch, has_fixed_shapes
from dragoman.native.packed_linear import can_pack, pack
from dragoman.native.settings import EngineSettings
from dragoman.search.beam import beam_search, greedy_search
from dragoman.search.ensemble import Ensemble
from dragoman.search.grid_beam import grid_beam_search
from dragoman.search.hypothesis import Constraints, NBest, Terms
from dragoman.search.sampling import sample
from dragoman.search.settings import SearchSettings
from dragoman.system.device import is_cpu, is_cuda, open_device
from dragoman.system.errors import DragomanError
from dragoman.system.futures import interruption
from dragoman.text.batches import pad
from dragoman.translation.model_folder import StoredModel, torch_model
from dragoman.translation.token_ids import batch_by_length, explain_out_of_memory

THREADS: list[int] = []
"""PyTorch's number of threads before the searches that run now: each sets it to 1 for threads of its own."""


class TorchBackend:
    """A model of PyTorch, in evaluation mode, with the searches for it."""

    def __init__(self, model: Model, workers: int = 1, cuda_graphs: bool = False) -> None:
        """`workers` threads each search for batches of their own.

        `cuda_graphs` needs a GPU. It is for the paper's Transformer alone: others are searched without.
        """
        self.model, self.workers = model.eval(), workers
        self.device = next(model.parameters()).device
        self._graphs = GraphSearch(model) if cuda_graphs and has_fixed_shapes(model) else None

    @classmethod
    def load(cls, stored: Sequence[StoredModel], device_name: str, engine: EngineSettings) -> "TorchBackend":
        """Build the models for a device; several become an ensemble.

        Raises `DragomanError` for a GPU that does not exist, a precision that the device does not support,
        and weights that do not fit their settings.
        """
        if engine.precision == "int8" and not is_cpu(torch.device(device_name)):
            raise DragomanError(
                f"int8 is for a CPU, and this model is to translate on {device_name}; choose bfloat16 or "
                "float32."
            )
        device = open_device(device_name)
        models = [prepare(torch_model(model), device, engine) for model in stored]
        threads = torch.get_num_threads() if is_cpu(device) else 1
        model = models[0] if len(models) == 1 else Ensemble(models)
        return cls(model, engine.workers or threads, engine.cuda_graphs and is_cuda(device))

    def search(
        self,
        sources: Sequence[list[int]],
        settings: SearchSettings,
        constraints: Constraints,
        terms: Terms = (),
    ) -> NBest:
        """The `n_best` best hypotheses of each source. A source ends with END; END alone has none.

        The translations of a source contain its terms, besides the forced phrases of `constraints`.

        Raises `DragomanError` for a model whose probabilities are not finite, and for a lack of memory.
        """

        def search_batch(batch: list[int]) -> NBest:
            with explain_out_of_memory(len(batch)):
                source = pad([sources[number] for number in batch]).to(self.device)
                forced = [*constraints.forced, *(terms[batch[0]] if terms else ())]
                return self.search_padded(source, settings, replace(constraints, forced=forced))

        width = settings.n_best if settings.temperature else settings.beam_size
        # Attention is recorded by one thread at a time.
        workers = 1 if settings.coverage_penalty else self.workers
        extra = settings.extra_tokens
        lengths = {number: len(ids) + extra for number, ids in enumerate(sources) if len(ids) > 1}
        max_tokens = settings.batch_tokens // width
        if workers > 1:  # two batches a thread balance the load
            max_tokens = min(max_tokens, sum(lengths.values()) // (2 * workers))
        with_terms = [number for number in lengths if terms and terms[number]]
        others = {number: length for number, length in lengths.items() if not (terms and terms[number])}
        batches = [*([number] for number in with_terms), *batch_by_length(others, max_tokens)]
        hypotheses: NBest = [[] for _ in sources]
        for batch, best in zip(batches, in_threads(search_batch, batches, workers), strict=True):
            for number, n_best in zip(batch, best, strict=True):
                hypotheses[number] = n_best
        return hypotheses

    def search_padded(
        self, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
    ) -> NBest:
        """One batch, by the search that the settings ask for."""
        if settings.temperature:
            return sample(self.model, source, settings, constraints)
        if constraints.forced:
            return grid_beam_search(self.model, source, settings, constraints)
        is_simple = constraints.limits_length_alone
        if self._graphs is not None and settings.is_standard_beam_search and is_simple:
            return self._graphs.search(source, settings, constraints)
        if settings.beam_size > 1 or settings.coverage_penalty or not is_simple:
            return beam_search(self.model, source, settings, constraints)
        return greedy_search(self.model, source, settings, constraints.min_length)


def prepare(model: Model, device: torch.device, engine: EngineSettings) -> Model:
    """The model on its device, in its precision. Raises `DragomanError` if the device does not support it."""
    if not is_cpu(device):
        return model.to(device, torch.bfloat16 if engine.precision == "bfloat16" else torch.float32)
    if can_pack(engine.precision):
        pack(model, engine.precision)
    elif engine.precision == "bfloat16":
        raise DragomanError("This processor has no matrix products in bfloat16; choose int8 or float32.")
    return model


def in_threads(
    search: Callable[[list[int]], NBest], batches: list[list[int]], workers: int
) -> Iterator[NBest]:
    """What the search finds for each batch, in order.

    Several batches at once in a thread each are faster than one batch in several threads. PyTorch releases
    Python's lock.
    """
    if workers == 1 or len(batches) == 1:
        yield from map(search, batches)
        return
    threads = next(iter(THREADS), None) or torch.get_num_threads()
    THREADS.append(threads)
    try:
        with ThreadPoolExecutor(workers, initializer=set_up_thread, initargs=(interruption.get(),)) as pool:
            yield from pool.map(search, batches)
    finally:
        torch.set_num_threads(threads)  # threads that are started later inherit the number
        THREADS.pop()


def set_up_thread(interrupted: Event) -> None:
    """One thread of PyTorch for a thread of ours, which is interrupted with the caller."""
    torch.set_num_threads(1)
    interruption.set(interrupted)
