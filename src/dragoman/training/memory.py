"""Memory: the C allocator told to keep what it has, and how much work fits into what there is."""

import ctypes
import os
from collections.abc import Callable

import torch
from torch import Tensor

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # malloc.h
KERNELS = 8192  # that oneDNN keeps, one a shape of matrices: an epoch of some 250 batches has so many, and by itself it keeps 1,024


def keep_memory_and_kernels() -> bool:
    """Make oneDNN keep its kernels, and glibc reuse freed blocks, in huge pages; True where the latter was possible.

    A training step frees and asks for the same blocks again and again, and fresh pages of a large tensor cost more than the
    arithmetic on it. A kernel for matrices of another shape takes some milliseconds to make, and some 0.2 MB. Elsewhere than on
    glibc memory is left as it is. To be called before the first large tensor is made.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))  # oneDNN reads it at its first product
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # PyTorch reads it at its first tensor
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    never = -1
    done = [mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, never), mallopt(_TOP_PAD, 64 * 2**20)]
    return all(done)


def fitting_tokens(forward: Callable[[int], object], most: int, device: torch.device) -> int:
    """How many tokens can be computed at once in the memory that is free now, `most` at most.

    `forward(n)` computes some n tokens and gives what holds their graph. What it keeps for the backward pass grows with n; as
    much again is left for gradients and whatever else lives for a moment.
    """
    few, many = max(1, most // 16), max(2, most // 8)
    kept = [kept_for_backward(forward, tokens) for tokens in (few, many)]
    per_token = max(1.0, (kept[1] - kept[0]) / (many - few))
    return int(max(1, min(most, free_memory(device) / 2 / per_token)))


def kept_for_backward(forward: Callable[[int], object], tokens: int) -> int:
    """Bytes of all tensors that the graph of `forward(tokens)` keeps, weights included."""
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        graph = forward(tokens)  # alive until all is counted
    del graph
    return sum(sizes.values())


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def out_of_memory(error: RuntimeError) -> bool:
    """Whether the error says that memory is used up: of a GPU, or of the machine."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
