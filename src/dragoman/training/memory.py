"""How many tokens fit into memory at once (`micro_batch_tokens = "auto"`), and what to do if they do not."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from dragoman.system.callers import warn_caller
from dragoman.system.device import is_cuda
from dragoman.system.errors import OptionError, OptionMessage, is_out_of_memory
from dragoman.system.processors import control_groups, read_system_file
from dragoman.system.torchrun import environment_number
from dragoman.text.batches import Batch

# Files of a control group, each with the pattern of its number. `current` includes the page cache, of which
# `inactive_file` can be freed.
CONTROL_GROUP = {
    "max": r"^(\d+)$",
    "current": r"^(\d+)$",
    "stat": r"^inactive_file (\d+)$",
}


def fitting_tokens(
    forward: Callable[[int], object], longest: int, most: int, device: torch.device, reserved: int = 0
) -> int:
    """The most tokens, up to `most`, whose computation fits into the free memory less `reserved` bytes.

    `forward(n)` computes n pairs of `longest` tokens and returns a result that keeps their graph. The memory
    that the graph keeps for the backward pass grows with n. As much again is left for temporary tensors and
    fragmentation.
    """
    pairs = max(1, most // 16 // longest)
    sizes = [kept_for_backward(forward, number) for number in (pairs, 2 * pairs)]
    per_token = max(1.0, (sizes[1] - sizes[0]) / (pairs * longest))
    return int(max(1, min(most, (free_memory(device) - reserved) / 2 / per_token)))


def kept_for_backward(forward: Callable[[int], object], pairs: int) -> int:
    """Bytes of all tensors that the graph of `forward(pairs)` keeps, including weights."""
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        graph = forward(pairs)
    del graph
    return sum(sizes.values())


def free_memory(device: torch.device) -> int:
    """Bytes that this process can allocate: of the GPU, or its share of the machine's memory."""
    if is_cuda(device):
        return torch.cuda.mem_get_info(device)[0]
    return min(available_memory(Path("/"))) // environment_number("LOCAL_WORLD_SIZE", 1, at_least=1)


def available_memory(root: Path) -> Iterator[int]:
    """Bytes that the system can give without swapping, and those that each control group still allows."""
    available = re.search(r"MemAvailable: +(\d+) kB", read_system_file(root / "proc/meminfo"))
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"  # macOS
    yield int(available[1]) * 1024 if available else os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    for group in control_groups(root):
        limit, used, cached = (
            re.search(pattern, read_system_file(group / f"memory.{name}"), re.MULTILINE)
            for name, pattern in CONTROL_GROUP.items()
        )
        if limit and used and cached:
            yield max(0, int(limit[1]) - int(used[1]) + int(cached[1]))


def smaller_batches(batches: list[Batch], error: Exception, may_retry: bool) -> list[Batch]:
    """Cut every batch in two and warn, if `error` is a lack of memory.

    Raises any other error, and `DragomanError` if the process must not repeat its batches or if all have one
    pair.
    """
    if not is_out_of_memory(error):
        raise error
    if not may_retry or all(len(batch.pairs) < 2 for batch in batches):
        raise OptionError(memory_message(batches)) from error
    message = f"{memory_message(batches)} Until then gradients are accumulated from smaller batches."
    warn_caller(OptionMessage(message))
    return [half for batch in batches for half in (batch.halves() if len(batch.pairs) > 1 else [batch])]


def memory_message(batches: list[Batch]) -> str:
    """What to do if these batches do not fit into memory, with the names of settings in braces."""
    pairs = max(len(batch.pairs) for batch in batches)
    if pairs == 1:
        return "There is not enough memory for one pair; train with another {out} and a lower {longest}."
    return (
        f"There is not enough memory for {pairs:,} pairs at once; train with a lower {{micro_batch_tokens}}."
    )
