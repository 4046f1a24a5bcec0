"""The forward and the backward pass of a batch as a CUDA graph, one for each shape of a batch.

Python takes longer to start the kernels of a small model than a GPU to compute them; a graph starts them all
at once. Its results equal those of the pass without a graph, bit for bit, so a resumed run equals an
uninterrupted one.
"""

from contextlib import suppress

import torch
from torch import Tensor, nn

from dragoman.model.symbols import PAD
from dragoman.system.errors import OptionError, is_out_of_memory
from dragoman.text.batches import Batch
from dragoman.training.memory import memory_message

MAX_GRAPHS = 512  # each takes GPU memory, and its capture takes as long as a pass
ALIGNMENT = 64  # numbers between the beginnings of gradients


class Gradients:
    """Gradients of an objective's weights, which never move: graphs add to them."""

    def __init__(self, objective: nn.Module) -> None:
        self.weights = [weight for weight in objective.parameters() if weight.requires_grad]
        sizes = [weight.numel() + -weight.numel() % ALIGNMENT for weight in self.weights]
        self.all = torch.zeros(sum(sizes), device=self.weights[0].device)
        self.parts = [
            part[: weight.numel()].view_as(weight)
            for weight, part in zip(self.weights, self.all.split(sizes), strict=True)
        ]

    def attach(self) -> None:
        """Make them the weights' gradients, as zeros, if `zero_grad` has removed those."""
        if self.weights[0].grad is None:
            self.all.zero_()
            for weight, part in zip(self.weights, self.parts, strict=True):
                weight.grad = part

    def add(self, objective: nn.Module, batch: Batch, factor: Tensor) -> Tensor:
        """Add the gradient of a batch's loss times a factor. Returns [loss, nll], summed over its tokens."""
        loss, nll = objective(batch)
        torch._foreach_add_(self.parts, torch.autograd.grad(loss * factor, self.weights))
        return torch.stack([loss.detach(), nll])


def with_all_positions(batch: Batch, device: torch.device) -> Batch:
    """The batch on a device, with predictions for padding too: their number depends on the shape alone.

    `prediction_indices` stay empty, because all positions are predicted in order.
    """
    source, target_in, target_out = (
        ids.to(device, non_blocking=True) for ids in (batch.source, batch.target_in, batch.target_out)
    )
    indices = target_out.new_empty(0)
    return Batch(source, target_in, target_out, indices, target_out.numel(), batch.pairs)


class BatchGraph:
    """`Gradients.add` for batches of one shape."""

    def __init__(
        self,
        gradients: Gradients,
        objective: nn.Module,
        batch: Batch,
        pool: object,
        stream: torch.cuda.Stream,
    ) -> None:
        """Capture the graph for batches of the shape of this one, which is on the GPU.

        Graphs that are captured in one stream share the memory of a pool.
        """
        device = batch.source.device
        self.batch, self.factor = batch, torch.zeros((), dtype=torch.float64, device=device)
        # The graph reads these: a table of positions may be replaced by a longer one.
        self.buffers = list(objective.buffers())
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        with torch.cuda.stream(stream):
            # Other threads may use the GPU.
            self.graph.capture_begin(pool, capture_error_mode="thread_local")  # type: ignore[arg-type]
            try:
                self.sums = gradients.add(objective, batch, self.factor)
            except BaseException:
                with suppress(RuntimeError):
                    self.graph.capture_end()
                raise
            self.graph.capture_end()

    def replay(self, batch: Batch, factor: float) -> Tensor:
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
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()  # for `_has_memory`
        assert isinstance(objective.cross_entropy, GPUCrossEntropy)
        objective.cross_entropy.padding = PAD
        self.objective = objective
        self._gradients = Gradients(objective)
        self._device = self._gradients.all.device
        self._pool, self._stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self._device)
        self._graphs: dict[object, BatchGraph] = {}
        self._seen: set[object] = set()
        self._may_capture = True

    def add_gradient(self, batch: Batch, factor: float) -> Tensor:
        """Add the gradient of the batch's loss times a factor to the weights' gradients.

        Returns [loss, nll], summed over the batch's tokens, which the next batch may overwrite. Raises
        `DragomanError` if a batch cannot be captured.
        """
        self._gradients.attach()
        shape = batch.source.shape, batch.target_in.shape
        if shape in self._seen and shape not in self._graphs and self._may_capture:
            self._capture(shape, batch)
        if shape in self._graphs:
            return self._graphs[shape].replay(batch, factor)
        self._seen.add(shape)
        on_gpu = torch.full((), factor, dtype=torch.float64, device=self._device)
        try:
            return self._gradients.add(self.objective, with_all_positions(batch, self._device), on_gpu)
        except RuntimeError as error:
            if is_out_of_memory(error):  # without graphs there is more
                self._graphs.clear()
                self._may_capture = False
            raise

    def _capture(self, shape: object, batch: Batch) -> None:
        """Capture a graph for a shape. Without memory for it, there are no more graphs from now on."""
        self._may_capture = len(self._graphs) < MAX_GRAPHS and self._has_memory()
        if not self._may_capture:
            return
        try:
            padded_batch = with_all_positions(batch, self._device)
            self._graphs[shape] = BatchGraph(
                self._gradients, self.objective, padded_batch, self._pool, self._stream
            )
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise OptionError(memory_message([batch])) from error
            reason = str(error).splitlines()[0]
            raise OptionError(
                "A batch could not be captured as a CUDA graph ({reason}). Train with {native=False}.",
                reason=reason,
            ) from error

    def _has_memory(self) -> bool:
        """Whether the free memory is at least the peak of this process so far. A capture needs less."""
        return torch.cuda.mem_get_info(self._device)[0] >= torch.cuda.max_memory_allocated(self._device)
