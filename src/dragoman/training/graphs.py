"""The forward and the backward pass of a batch as a CUDA graph, one for each shape of a batch.

Python takes longer to start the kernels of a small model than a GPU to compute them; a graph starts all at
once. Oracle: `add_gradient`. A graph computes the same bits, so a resumed run equals an uninterrupted one.
"""

from contextlib import suppress

import torch
from torch import Tensor, nn

from dragoman.model.symbols import PAD
from dragoman.system.errors import DragomanError, is_out_of_memory
from dragoman.text.batches import Batch

MOST_GRAPHS = 512  # each takes some megabytes of the GPU's memory
ALIGNMENT = 64  # numbers between the beginnings of gradients


def add_gradient(objective: nn.Module, batch: Batch, factor: Tensor) -> Tensor:
    """Add the gradient of the batch's loss times a factor to the weights' gradients.

    Returns [loss, nll], summed over the batch's tokens.
    """
    loss, nll = objective(batch)
    (loss * factor).backward()
    return torch.stack([loss.detach(), nll])


def with_all_positions(batch: Batch, device: torch.device) -> Batch:
    """The batch on a device, with predictions for padding too: their number depends on the shape alone."""
    source, target_in, target_out = (
        ids.to(device, non_blocking=True) for ids in (batch.source, batch.target_in, batch.target_out)
    )
    positions = target_out.numel()
    return Batch(
        source, target_in, target_out, torch.arange(positions, device=device), positions, batch.pairs
    )


class BatchGraph:
    """`add_gradient` for batches of one shape."""

    def __init__(self, objective: nn.Module, batch: Batch, pool: object, stream: torch.cuda.Stream) -> None:
        """Capture the graph for batches of the shape of this one, which is on the GPU.

        Graphs that are captured in one stream share the memory of a pool.
        """
        device = batch.source.device
        self.batch, self.factor = batch, torch.zeros((), dtype=torch.float64, device=device)
        # The graph reads these: a table of positions may be replaced by a longer one.
        self.buffers = list(objective.buffers())
        self.graph, generator = torch.cuda.CUDAGraph(), torch.cuda.default_generators[device.index]
        before = generator.clone_state()
        torch.cuda.synchronize(device)
        with torch.cuda.stream(stream):
            # Other threads may use the GPU.
            self.graph.capture_begin(pool, capture_error_mode="thread_local")  # type: ignore[arg-type]
            try:
                self.sums = add_gradient(objective, batch, self.factor)
            except BaseException:
                with suppress(RuntimeError):
                    self.graph.capture_end()
                generator.graphsafe_set_state(before)  # it stays in the mode of a capture that has failed
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


class GraphedObjective(nn.Module):
    """An objective whose gradients are computed with a graph from the second batch of a shape on."""

    def __init__(self, objective: nn.Module) -> None:
        """For an objective with the kernels of native/gpu_fused.py."""
        from dragoman.native.gpu_fused import GPUCrossEntropy

        super().__init__()
        assert isinstance(objective.cross_entropy, GPUCrossEntropy)
        objective.cross_entropy.padding = PAD
        self.objective = objective
        self._weights = [weight for weight in objective.parameters() if weight.requires_grad]
        sizes = [weight.numel() + -weight.numel() % ALIGNMENT for weight in self._weights]
        self.device = self._weights[0].device
        # Graphs add to gradients that never move.
        self._all_gradients = torch.zeros(sum(sizes), device=self.device)
        self._gradients = [
            part[: weight.numel()].view_as(weight)
            for weight, part in zip(self._weights, self._all_gradients.split(sizes), strict=True)
        ]
        self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self.device)
        self._graphs: dict[object, BatchGraph] = {}
        self._seen: set[object] = set()
        self._may_capture = True

    def add_gradient(self, batch: Batch, factor: float) -> Tensor:
        """Add the gradient of the batch's loss times a factor to the weights' gradients.

        Gradients that `zero_grad` has removed count as zeros. Returns [loss, nll], summed over the batch's
        tokens, which the next batch may overwrite.
        """
        if self._weights[0].grad is None:
            self._all_gradients.zero_()
            for weight, gradient in zip(self._weights, self._gradients, strict=True):
                weight.grad = gradient
        shape = batch.source.shape, batch.target_in.shape
        if shape in self._seen and shape not in self._graphs and self._may_capture:
            self._capture(shape, batch)
        if shape in self._graphs:
            return self._graphs[shape].add_gradient(batch, factor)
        self._seen.add(shape)
        on_gpu = torch.full((), factor, dtype=torch.float64, device=self.device)
        try:
            return add_gradient(self.objective, with_all_positions(batch, self.device), on_gpu)
        except RuntimeError as error:
            if is_out_of_memory(error):
                self._stop_capturing()
            raise

    def _capture(self, shape: object, batch: Batch) -> None:
        """Capture a graph for a shape. If memory runs out, there are no graphs from now on."""
        batch = with_all_positions(batch, self.device)
        try:
            self._graphs[shape] = BatchGraph(self.objective, batch, self._pool, self._stream)
            self._may_capture = len(self._graphs) < MOST_GRAPHS
        except RuntimeError as error:
            self._stop_capturing()
            if is_out_of_memory(error):
                return
            raise DragomanError(
                f"A batch could not be captured as a CUDA graph ({str(error).splitlines()[0]}). Train with "
                "--no-native."
            ) from error

    def _stop_capturing(self) -> None:
        """Free the graphs, and capture no others."""
        self._graphs.clear()
        self._may_capture = False
