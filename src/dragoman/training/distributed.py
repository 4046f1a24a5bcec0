"""The processes that train together: which one this is, its device, and what they tell each other (torchrun starts them)."""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
from torch import Tensor, distributed
from torch._C._distributed_c10d import PrefixStore, Store  # what torch.distributed.PrefixStore is, as type checkers see it
from torch.distributed.rendezvous import rendezvous

from dragoman.system.errors import DragomanError

PATIENCE = timedelta(days=2)  # the others wait this long while the first prepares the corpus


@dataclass(frozen=True)
class World:
    """This process among the `size` that train together. Every method that communicates is called by all of them."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    store: Store | None = None
    """Where processes leave notes for each other."""

    @property
    def leads(self) -> bool:
        """Whether it is this process that writes files and speaks."""
        return self.rank == 0

    @property
    def alone(self) -> "World":
        """This process as if there were no other."""
        return World(device=self.device)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of all processes' values."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def first(self, work: Callable[[], None]) -> None:
        """Let the first process do the work, however long it takes, while the others wait."""
        if self.leads:
            work()
        if self.store is not None and self.leads:
            self.store.set("done", "yes")
        elif self.store is not None:
            self.store.wait(["done"], PATIENCE)

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.size > 1:
            distributed.barrier(device_ids=[self.device.index] if self.device.type == "cuda" else None)

    def share(self, lines: Sequence[str]) -> Sequence[str]:
        """This process's part of the lines."""
        return lines[self.rank :: self.size]

    def join(self, mine: Sequence[str], count: int) -> list[str]:
        """All `count` lines in order, from the parts that `share` gave, one line for each. No line holds a line feed."""
        if self.size == 1:
            return list(mine)
        text = torch.tensor(list("\n".join(mine).encode()), dtype=torch.uint8, device=self.device)
        lengths = torch.zeros(self.size, dtype=torch.int64, device=self.device)
        lengths[self.rank] = len(text)
        sizes = self.sum(lengths).tolist()
        padded = torch.zeros(self.size, max(sizes), dtype=torch.uint8, device=self.device)
        padded[self.rank, : len(text)] = text
        lines = [""] * count
        for rank, (row, size) in enumerate(zip(self.sum(padded).cpu(), sizes, strict=True)):
            if rank < count:
                lines[rank :: self.size] = bytes(row[:size].tolist()).decode().split("\n")
        return lines


@contextmanager
def world() -> Iterator[World]:
    """The world that torchrun made, or this process alone. Raises `DragomanError` in the others where one of them has ended."""
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
        yield World()
        return
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    store, rank, size = next(rendezvous("env://"))
    if os.environ.get("GROUP_WORLD_SIZE") == "1":  # torchrun keeps its store over restarts: what the dead wrote must not be read
        store = PrefixStore(f"start {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    distributed.init_process_group("nccl" if gpu else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield World(rank, size, device, store)
    except RuntimeError as error:
        if "gloo" not in str(error).lower() and "nccl" not in str(error).lower():
            raise
        raise DragomanError(
            f"Another process of this training has ended ({str(error).splitlines()[0]}). Its own message says why; the last checkpoint is "
            "whole: go on with: dragoman resume RUN, started in the same way."
        ) from error
    finally:
        # Where a process has died, the group's threads may wait for another one or, as PyTorch has it, for Python's lock, and its
        # destructor waits for them with that lock held. The reference that is taken here keeps it from being called: this process ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(distributed.group.WORLD))
        distributed.destroy_process_group()
