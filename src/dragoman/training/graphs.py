"""The forward and the backward pass of a batch as a CUDA graph, one for each shape of a batch.

Python takes longer to start the kernels of a small model than a GPU to compute them; a graph starts all at
once. `dragoman train` does not use this yet: benchmarks/gpu_train.py --way graphs measures it.
"""

from contextlib import suppress

import torch
from torch import Tensor, nn

from dragoman.model.symbols import PAD
from dragoman.system.errors import is_out_of_memory
from dragoman.text.batches import Batch
from dragoman.training.objective import Objective

CACHED_GRAPHS = 1024
ALIGNMENT = 64  # numbers between the beginnings of gradients


def add_gradient(objective: nn.Module, batch: Batch, factor: Tensor) -> Tensor:
    """Add the gradient of the batch's loss times a factor to the weights' gradients.

    Returns [loss, nll], summed over the batch's tokens.
    """
    loss, nll = objective(batch)
    (loss * factor).backward()
    return torch.stack([loss.detach(), nll])


class BatchGraph:
    """`add_gradient` for batches of one shape."""

    def __init__(self, objective: nn.Module, batch: Batch, pool: object) -> None:
        """Capture the graph for batches of the shape of this one, which is on the GPU."""
        device, positions = batch.source.device, batch.target_out.numel()
        self.batch = Batch(
            batch.source.clone(),
            batch.target_in.clone(),
            batch.target_out.clone(),
            torch.arange(positions, device=device),
            positions,
            [],
        )
        self.factor = torch.zeros((), dtype=torch.float64, device=device)
        self.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)
        torch.cuda.synchronize(device)
        with torch.cuda.stream(stream):
            # Other threads may use the GPU.
            self.graph.capture_begin(pool, capture_error_mode="thread_local")  # type: ignore[arg-type]
            try:
                self.sums = add_gradient(objective, self.batch, self.factor)
            except BaseException:
                with suppress(RuntimeError):
                    self.graph.capture_end()
                raise
            self.graph.capture_end()

    def add_gradient(self, batch: Batch, factor: float) -> Tensor:
        """The same for a batch of this shape; the sums are overwritten by the next one."""
        self.batch.source.copy_(batch.source, non_blocking=True)
        self.batch.target_in.copy_(batch.target_in, non_blocking=True)
        self.batch.target_out.copy_(batch.target_out, non_blocking=True)
        self.factor.fill_(factor)
        self.graph.replay()
        return self.sums


class TrainingGraphs:
    """`add_gradient` without a graph for the first batch of a shape, and with a graph for later ones."""

    def __init__(self, objective: Objective) -> None:
        """For an objective on a GPU. Raises `ValueError` if `fuse` has not found kernels for it."""
        from dragoman.native.gpu_fused import GPUCrossEntropy

        if not isinstance(objective.cross_entropy, GPUCrossEntropy):
            raise ValueError("Graphs need the kernels for a GPU, which leave padding out of the loss.")
        objective.cross_entropy.padding = PAD  # every target position of a graph is a prediction
        self.objective = objective
        self.weights = [weight for weight in objective.parameters() if weight.requires_grad]
        sizes = [weight.numel() + -weight.numel() % ALIGNMENT for weight in self.weights]
        self.device = self.weights[0].device
        # Graphs add to gradients that never move.
        self.gradients = torch.zeros(sum(sizes), device=self.device)
        self._parts = [
            part[: weight.numel()].view_as(weight)
            for weight, part in zip(self.weights, self.gradients.split(sizes), strict=True)
        ]
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[object, BatchGraph] = {}
        self._seen: set[object] = set()
        self._has_memory = True

    def add_gradient(self, batch: Batch, factor: float) -> Tensor:
        """Add the gradient of the batch's loss times a factor to the weights' gradients.

        Gradients that `zero_grad` has removed count as zeros. Returns [loss, nll], summed over the batch's
        tokens, which the next batch may overwrite.
        """
        if self.weights[0].grad is None:
            self.gradients.zero_()
            for weight, part in zip(self.weights, self._parts, strict=True):
                weight.grad = part
        shape = batch.source.shape, batch.target_in.shape
        if shape in self._seen and shape not in self._graphs and self._has_memory:
            self._capture(shape, batch)
        if shape in self._graphs:
            graph = self._graphs[shape] = self._graphs.pop(shape)  # the last one used is the last one to go
            return graph.add_gradient(batch, factor)
        self._seen.add(shape)
        on_gpu = torch.full((), factor, dtype=torch.float64, device=self.device)
        return add_gradient(self.objective, batch.to(self.device), on_gpu)

    def _capture(self, shape: object, batch: Batch) -> None:
        """Capture a graph for a shape; without enough memory, no graph from now on."""
        if len(self._graphs) == CACHED_GRAPHS:
            self._graphs.pop(next(iter(self._graphs)))
        try:
            self._graphs[shape] = BatchGraph(self.objective, batch.to(self.device), self._pool)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            self._graphs.clear()
            self._has_memory = False
