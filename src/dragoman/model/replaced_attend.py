"""Another `attend` for an attention module, to see or change what it computes.

PyTorch's hooks are for `forward`, and `MultiHeadAttention` has none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn


@contextmanager
def replaced_attend(module: nn.Module, attend: Callable[..., Tensor]) -> Iterator[None]:
    """Let a module have another `attend` while the context is open."""
    own = vars(module)
    before = own.get("attend")  # of another context that is open
    own["attend"] = attend
    try:
        yield
    finally:
        del own["attend"]
        if before is not None:
            own["attend"] = before
