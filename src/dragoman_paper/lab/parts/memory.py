"""The memory of a computation: the bytes of the tensors that exist at one time."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(compute: Callable[[], object]) -> int:
    """The most bytes that results of the operations in `compute` take at one time, its own result included.

    Not counted: tensors that existed before, and what an operation needs only until it returns.
    """
    with Memory() as memory:
        compute()
    return memory.peak


class Memory(TorchDispatchMode):
    """Counts the bytes of the storages that operations make, until they are freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute, and count the storages of the results that are new: a view has that of an argument."""
        result = operation(*args, **(kwargs or {}))
        before, after = storages((args, kwargs)), storages(result)
        for address in after.keys() - before.keys():
            self.now += after[address].nbytes()
            weakref.finalize(after[address], self.free, after[address].nbytes())
        self.peak = max(self.peak, self.now)
        return result

    def free(self, size: int) -> None:
        """Subtract a storage that no tensor has any more."""
        self.now -= size


def storages(values: object) -> dict[int, torch.UntypedStorage]:
    """The storages of all tensors among the values, by address."""
    parts = (value.untyped_storage() for value in tree_leaves(values) if isinstance(value, torch.Tensor))
    return {storage.data_ptr(): storage for storage in parts}
