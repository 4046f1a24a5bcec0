"""Processes that train together, started by torchrun: collective operations, gradients, sharded weights.

Imported by runs of several processes. FSDP2 is imported by runs that shard weights: that takes most of a
second.
"""

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

import torch
from torch import Tensor, distributed, nn

# torch.distributed.PrefixStore, as type checkers see it.
from torch._C._distributed_c10d import (
    PrefixStore,
    Store,
)
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from dragoman.model.interface import Model
from dragoman.model.variants import BatchNorm
from dragoman.system.device import is_cuda
from dragoman.system.errors import DragomanError
from dragoman.system.torchrun import environment_number, process_count, process_rank
from dragoman.training.interrupt import ENDED, OUT_OF_TIME, STOP_SIGNALS, StopRequest
from dragoman.training.world import World, is_sharded

PREPARATION_TIMEOUT = timedelta(days=2)  # of the processes that wait while the main one prepares the corpus
SECONDS_BETWEEN_QUERIES = 2.0  # about, between two exchanges of processes about signals
GROUPS = count()
"""Numbers the process groups of this process. All processes count alike, so a number is a common key."""


@dataclass(frozen=True)
class ProcessGroup(World):
    """This process among several that train together. All processes call the methods that communicate."""

    store: Store | None = None
    """Key-value store that the processes share."""

    def all_reduce(self, values: Tensor) -> Tensor:
        distributed.all_reduce(values)
        return values

    def all_equal(self, number: int) -> bool:
        bounds = torch.tensor([number, -number], device=self.device)
        distributed.all_reduce(bounds, distributed.ReduceOp.MAX)
        highest, negative_lowest = bounds.tolist()
        return bool(highest == -negative_lowest)

    def main_first(self, work: Callable[[], None]) -> None:
        assert self.store is not None
        if self.is_main:
            work()
            self.store.set("done", "yes")
        else:
            self.store.wait(["done"], PREPARATION_TIMEOUT)

    def barrier(self) -> None:
        distributed.barrier(device_ids=[self.device.index] if is_cuda(self.device) else None)

    def split(self, lines: Sequence[str]) -> Sequence[str]:
        return lines[self.rank :: self.size]

    def gather(self, part: Sequence[str], count: int) -> list[str]:
        encoded = torch.tensor(list("\n".join(part).encode()), dtype=torch.uint8, device=self.device)
        lengths = torch.zeros(self.size, dtype=torch.int64, device=self.device)
        lengths[self.rank] = len(encoded)
        sizes = self.all_reduce(lengths).tolist()
        padded = torch.zeros(self.size, max(sizes), dtype=torch.uint8, device=self.device)
        padded[self.rank, : len(encoded)] = encoded
        lines = [""] * count
        for rank, (row, size) in enumerate(zip(self.all_reduce(padded).cpu(), sizes, strict=True)):
            if rank < count:
                lines[rank :: self.size] = bytes(row[:size].tolist()).decode().split("\n")
        return lines

    def stop_request(self, step: int, deadline: float) -> StopRequest:
        return SharedStopRequest(self, step, deadline)

    # ---- gradients and weights

    def data_parallel(self, objective: nn.Module, model: Model, shards: bool) -> nn.Module:
        """Each process has all weights (DDP), or a part of every weight and gathers layers (FSDP2).

        Raises `DragomanError` for a model with batch normalisation.
        """
        if any(isinstance(module, BatchNorm) for module in model.modules()):
            raise DragomanError(
                "Batch normalisation keeps the running averages of one process, and several processes were "
                "given. Train in one process, or choose another norm."
            )
        if shards:
            from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

            for layer, methods in model.layers():
                fully_shard(layer)
                for method in methods:
                    register_fsdp_forward_method(layer, method)
            fully_shard(objective)
            return objective
        # Tables of positions grow as needed, in each process by itself: there is nothing to synchronise.
        buffers = [name for name, _ in objective.named_buffers()]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(objective, buffers)
        devices = [self.device] if is_cuda(self.device) else None
        return DistributedDataParallel(objective, device_ids=devices, gradient_as_bucket_view=True)

    def gradient_sync(self, objective: nn.Module, last: bool) -> AbstractContextManager[None]:
        if isinstance(objective, DistributedDataParallel):
            return nullcontext() if last else objective.no_sync()
        if distributed.is_initialized():
            from torch.distributed.fsdp import FSDPModule

            if isinstance(objective, FSDPModule):
                objective.set_requires_gradient_sync(last)
        return nullcontext()

    def communicates_in_last_backward_only(self, objective: nn.Module) -> bool:
        return isinstance(objective, DistributedDataParallel)

    def shard_like(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        sharded_weights = {name: weight for name, weight in model.named_parameters() if is_sharded(weight)}
        if not sharded_weights:
            return tensors
        from torch.distributed.tensor import distribute_tensor

        def part(name: str, tensor: Tensor) -> Tensor:
            weight = sharded_weights.get(name.split("|", 1)[0])
            if weight is None or weight.shape != tensor.shape:
                return tensor
            return distribute_tensor(
                tensor.to(weight.device), weight.device_mesh, weight.placements, src_data_rank=None
            )

        return {name: part(name, tensor) for name, tensor in tensors.items()}


class SharedStopRequest(StopRequest):
    """Records the first stop signal of this process and tells all processes about it.

    They communicate about every `SECONDS_BETWEEN_QUERIES`, at a step that they agree on: a query in every
    step would wait for the GPU.
    """

    def __init__(self, world: World, step: int, deadline: float) -> None:
        super().__init__(deadline)
        self.world = world
        self._next_query, self._last_query, self._last_time = step + 1, step, time.monotonic()

    def after(self, step: int) -> int | None:
        if step < self._next_query:
            return None
        now = time.monotonic()
        seconds_per_step = (now - self._last_time) / (step - self._last_query)
        numbers, signal_number = (*STOP_SIGNALS, OUT_OF_TIME, ENDED), self.number
        received = [float(number == signal_number) for number in numbers]
        *counts, seconds = self.world.all_reduce(
            torch.tensor([*received, seconds_per_step], device=self.world.device)
        ).tolist()
        interval = max(1, round(SECONDS_BETWEEN_QUERIES * self.world.size / seconds))
        self._next_query, self._last_query, self._last_time = step + interval, step, now
        return next((number for number, count in zip(numbers, counts, strict=True) if count), None)


@contextmanager
def torchrun_group() -> Iterator[World]:
    """The world that torchrun has made.

    Raises `DragomanError` if its environment variables are unusable, and in the remaining processes if one of
    them has ended.
    """
    gpu, local_rank = torch.cuda.is_available(), environment_number("LOCAL_RANK", 0, at_least=0)
    device = torch.device("cuda", local_rank) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    rank, size = process_rank(), process_count()
    try:
        store, _, _ = next(rendezvous("env://"))
    except ValueError as error:
        raise DragomanError(
            f"The environment variables of torchrun are unusable ({error}). Start the program by torchrun, "
            "or unset RANK and WORLD_SIZE."
        ) from error
    store = PrefixStore(f"group {next(GROUPS)}", store)  # of several trainings, one after the other
    # Torchrun keeps its store over restarts: keys of earlier starts must not be read.
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    distributed.init_process_group("nccl" if gpu else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield ProcessGroup(rank, size, device, store) if size > 1 else World(device=device)
    except RuntimeError as error:
        is_group_error = isinstance(error, distributed.DistError) or re.search("gloo|nccl", str(error), re.I)
        if not is_group_error:
            raise
        raise DragomanError(
            f"Another process of this training has ended ({str(error).splitlines()[0]}). Its own message "
            "says why. The last checkpoint, if there is one, is intact: resume with `dragoman resume RUN`, "
            "started in the same way."
        ) from error
    finally:
        # If a process has died, the group's threads may wait for it, or for Python's lock, and the group's
        # destructor waits for them while it holds that lock. The extra reference keeps it from being called.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(distributed.group.WORLD))
        distributed.destroy_process_group()
