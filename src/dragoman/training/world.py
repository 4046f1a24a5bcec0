"""The process that trains: alone, or among those that torchrun has started (training/distributed.py)."""

# ruff: noqa: ARG002  what a process alone does not need, `ProcessGroup` does

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from dragoman.model.interface import Model
from dragoman.system.device import default_device
from dragoman.training.interrupt import StopRequest

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


@dataclass(frozen=True)
class World:
    """A process that trains alone: nothing is communicated.

    `ProcessGroup` is the same for several processes, which all call the methods.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device(default_device()))

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
        return values

    def all_equal(self, number: int) -> bool:
        """Whether all processes have the same number."""
        return True

    def main_first(self, work: Callable[[], None]) -> None:
        """Let the main process do the work while the others wait, however long it takes."""
        work()

    def barrier(self) -> None:
        """Wait until all processes have called this."""

    def split(self, lines: Sequence[str]) -> Sequence[str]:
        """This process's part of the lines."""
        return lines

    def gather(self, part: Sequence[str], count: int) -> list[str]:
        """All `count` lines in order, from the processes' parts as `split` gives them.

        No line holds a line feed.
        """
        return list(part)

    def stop_request(self, step: int, deadline: float) -> StopRequest:
        """A record of the stop signals that a process receives after `step`, and of the end of its time."""
        return StopRequest(deadline)

    # ---- gradients and weights

    def data_parallel(self, objective: nn.Module, model: Model, shards: bool) -> nn.Module:
        """Wrap the objective of a model: `backward` then averages the gradients over the processes.

        With `shards` each process has a part of every weight, otherwise all weights.
        """
        return objective

    def gradient_sync(self, objective: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Around each batch of an update: only the backward pass of the last one synchronises gradients."""
        return nullcontext()

    def communicates_in_last_backward_only(self, objective: nn.Module) -> bool:
        """Whether a process may compute any number of batches before the last backward pass of an update."""
        return True

    def shard_like(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """This process's part of each tensor, sharded as the model's weight of that name.

        A name is that of a weight, or `weight|moment`.
        """
        return tensors


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
    full_tensors: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        gathered = unsharded(tensor)
        if keep:
            full_tensors[name] = gathered.cpu()
    return full_tensors
