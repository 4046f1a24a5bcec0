"""How much work fits into the memory that there is; sums that fade away."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from dragoman.system.machine import control_groups, text

CONTROL_GROUP = {"max": r"^(\d+)$", "current": r"^(\d+)$", "stat": r"^inactive_file (\d+)$"}  # what can be given up is in use too


@contextmanager
def without_denormals() -> Iterator[None]:
    """Have the processor take numbers below 1e-38 for 0: sums that fade away, as Adam's do, come to be such, and are 20 times as slow.

    Threads that begin meanwhile, PyTorch's among them, do so for good.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def fitting_tokens(forward: Callable[[int], object], longest: int, most: int, device: torch.device, reserved: int = 0) -> int:
    """How many tokens can be computed at once in the memory that is free now but for `reserved` bytes, `most` at most.

    `forward(n)` computes n pairs of `longest` tokens and gives what holds their graph. What it keeps for the backward pass grows
    with n; as much again is left for whatever else lives for a moment and for gaps between blocks (on a CPU an update was measured to
    take 1 to 1.4 times what is kept, and several of different lengths 1.6 times).
    """
    pairs = max(1, most // 16 // longest)
    kept = [kept_for_backward(forward, number) for number in (pairs, 2 * pairs)]
    per_token = max(1.0, (kept[1] - kept[0]) / (pairs * longest))
    return int(max(1, min(most, (free_memory(device) - reserved) / 2 / per_token)))


def kept_for_backward(forward: Callable[[int], object], pairs: int) -> int:
    """Bytes of all tensors that the graph of `forward(pairs)` keeps, weights included."""
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        graph = forward(pairs)  # alive until all is counted
    del graph
    return sum(sizes.values())


def free_memory(device: torch.device) -> int:
    """Bytes that this process can still allocate: of a machine's, which its processes share, or of a GPU's."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return min(free_on_machine(Path("/"))) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def free_on_machine(root: Path) -> Iterator[int]:
    """Bytes that the system can give without swapping, and those that each control group leaves."""
    available = re.search(r"MemAvailable: +(\d+) kB", text(root / "proc/meminfo"))
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"  # macOS knows no better
    yield int(available[1]) * 1024 if available else os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
    for group in control_groups(root):
        most, used, cached = (re.search(pattern, text(group / f"memory.{name}"), re.MULTILINE) for name, pattern in CONTROL_GROUP.items())
        if most and used and cached:
            yield max(0, int(most[1]) - int(used[1]) + int(cached[1]))
