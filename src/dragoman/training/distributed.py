"""Processes that train together, started by torchrun: collective operations, gradients, sharded weights.

FSDP2 is imported by runs that shard weights: that takes most of a second.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeGuard

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
from dragoman.system.errors import DragomanError

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

PREPARATION_TIMEOUT = timedelta(days=2)  # of the processes that wait while the main one prepares the corpus


@dataclass(frozen=True)
class World:
    """This process among the `size` that train together. All processes call the methods that communicate."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(
        default_factory=lambda: torch.device("cuda" if torch.cuda.is_available() else "cpu")
    )
    store: Store | None = None
    """Key-value store that the processes share."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    @property
    def local(self) -> "World":
        """A world of this process alone."""
        return World(device=self.device)

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum of all processes' values, which also replaces them."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def main_first(self, work: Callable[[], None]) -> None:
        """Let the main process do the work while the others wait, however long it takes."""
        if self.is_main:
            work()
        if self.store is not None and self.is_main:
            self.store.set("done", "yes")
        elif self.store is not None:
            self.store.wait(["done"], PREPARATION_TIMEOUT)

    def barrier(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            distributed.barrier(device_ids=[self.device.index] if self.device.type == "cuda" else None)

    def split(self, lines: Sequence[str]) -> Sequence[str]:
        """This process's part of the lines."""
        return lines[self.rank :: self.size]

    def gather(self, part: Sequence[str], count: int) -> list[str]:
        """All `count` lines in order, from the processes' parts as `split` gives them.

        No line holds a line feed.
        """
        if self.size == 1:
            return list(part)
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


@contextmanager
def process_group() -> Iterator[World]:
    """The world that torchrun has made, or a world of this process alone.

    Raises `DragomanError` in the remaining processes if one of them has ended.
    """
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
        yield World()
        return
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    store, rank, size = next(rendezvous("env://"))
    # Torchrun keeps its store over restarts: ignore what the dead wrote.
    if os.environ.get("GROUP_WORLD_SIZE") == "1":
        store = PrefixStore(f"start {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    distributed.init_process_group("nccl" if gpu else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield World(rank, size, device, store)
    except RuntimeError as error:
        if "gloo" not in str(error).lower() and "nccl" not in str(error).lower():
            raise
        raise DragomanError(
            f"Another process of this training has ended ({str(error).splitlines()[0]}). Its own message "
            "says why. The last checkpoint is intact: resume with `dragoman resume RUN`, started in the same "
            "way."
        ) from error
    finally:
        # If a process has died, the group's threads may wait for it, or for Python's lock, and the group's
        # destructor waits for them while it holds that lock. The extra reference keeps it from being called.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(distributed.group.WORLD))
        distributed.destroy_process_group()


# ---- gradients


def data_parallel(objective: nn.Module, model: Model, world: World, shards_weights: bool) -> nn.Module:
    """Wrap the objective of a model: `backward` then averages the gradients over the processes.

    Each process has all weights (DDP), or a part of every weight, and gathers a layer while it computes
    (FSDP2).
    """
    if world.size == 1:
        return objective
    if shards_weights:
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
    devices = [world.device] if world.device.type == "cuda" else None
    return DistributedDataParallel(objective, device_ids=devices, gradient_as_bucket_view=True)


def gradient_sync(objective: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Around each batch of an update: only the backward pass of the last one synchronises gradients."""
    if isinstance(objective, DistributedDataParallel):
        return nullcontext() if last else objective.no_sync()
    if distributed.is_initialized():
        from torch.distributed.fsdp import FSDPModule

        if isinstance(objective, FSDPModule):
            objective.set_requires_gradient_sync(last)
    return nullcontext()


def communicates_in_last_backward_only(objective: nn.Module, world: World) -> bool:
    """Whether a process may compute any number of batches before the last backward pass of an update."""
    return world.size == 1 or isinstance(objective, DistributedDataParallel)


# ---- sharded weights


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether each process has a part of the tensor: such a tensor has a class of its own."""
    return type(tensor) not in (Tensor, nn.Parameter)


def unsharded(tensor: Tensor) -> Tensor:
    """The full tensor, gathered from all processes. All processes call this."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def unsharded_on_cpu(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """The full tensors on the CPU, in the processes that keep them; elsewhere an empty table.

    All processes call this.
    """
    full: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        gathered = unsharded(tensor)
        if keep:
            full[name] = gathered.cpu()
    return full


def shard_like(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """This process's part of each tensor, sharded as the model's weight of that name.

    A name is that of a weight, or `weight|moment`.
    """
    sharded_weights = {name: weight for name, weight in model.named_parameters() if is_sharded(weight)}
    if not sharded_weights:
        return dict(tensors)
    from torch.distributed.tensor import distribute_tensor

    def part(name: str, tensor: Tensor) -> Tensor:
        weight = sharded_weights.get(name.split("|", 1)[0])
        if weight is None or weight.shape != tensor.shape:
            return tensor
        return distribute_tensor(
            tensor.to(weight.device), weight.device_mesh, weight.placements, src_data_rank=None
        )

    return {name: part(name, tensor) for name, tensor in tensors.items()}
