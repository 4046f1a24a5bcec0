"""Watching what an attention is given, also one that projects without a module that could have a hook."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def replaced_attend(module: nn.Module, attend: Callable[..., Tensor]) -> Iterator[None]:
    """Let a module have another `attend` while the context is open."""
    before = vars(module).copy()
    vars(module)["attend"] = attend
    try:
        yield
    finally:
        del vars(module)["attend"]
        if "attend" in before:
            vars(module)["attend"] = before["attend"]
