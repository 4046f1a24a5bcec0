"""Another `attend` for an attention module, to see or change what it computes.

PyTorch's hooks are for `forward`, and `MultiHeadAttention` has none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def replaced_attend(module: nn.Module, attend: Callable[..., Tensor]) -> Iterator[None]:
    """Let a module have another `attend` while the context is open."""
    attributes = vars(module)
    previous = attributes.get("attend")  # of another context that is open
    attributes["attend"] = attend
    try:
        yield
    finally:
        del attributes["attend"]
        if previous is not None:
            attributes["attend"] = previous
