"""The layer types of Table 1 (section 4), each from n vectors to n vectors.

Shapes: n positions, D features, H heads. Attention is the function of equation 1 alone, as in the paper's
table: its four projections, which cost n · D² multiply-adds each, are left out.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.variants import RestrictedAttention

HEAD_WIDTH = 64


class Layer(nn.Module):
    """A layer of Table 1."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
        """The outputs of all positions."""

    def stepwise(self, x: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
        """The same, by operations that can be counted and followed one by one."""
        return self(x)


class SelfAttention(Layer):
    """Equation 1 for all heads, with the inputs as queries, keys and values."""

    def __init__(self, width: int, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.heads, self.attention = max(1, width // HEAD_WIDTH), attention
        attention.output = nn.Identity()  # type: ignore[assignment]

    def forward(self, x: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
        """One layer on a sequence of n positions."""
        heads = x.unflatten(2, (self.heads, -1)).transpose(1, 2)
        return self.attention.attend(heads, KeysValues(heads, heads))


class Recurrent(Layer):
    """An LSTM, from the first position to the last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm, self.cell = nn.LSTM(width, width, batch_first=True), nn.LSTMCell(width, width)
        for name, weight in self.cell.named_parameters():
            setattr(self.lstm, f"{name}_l0", weight)

    def forward(self, x: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
        """One layer on a sequence of n positions."""
        outputs: Tensor = self.lstm(x)[0]
        return outputs

    def stepwise(self, x: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
        hidden = cell = torch.zeros_like(x[:, 0])
        outputs = []
        for inputs in x.unbind(1):
            hidden, cell = self.step(inputs, hidden, cell)
            outputs.append(hidden)
        return torch.stack(outputs, 1)

    def step(
        self, x: Float[Tensor, "N D"], hidden: Float[Tensor, "N D"], cell: Float[Tensor, "N D"]
    ) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N D"]]:
        """The states after an input, from those before it."""
        states: tuple[Tensor, Tensor] = self.cell(x, (hidden, cell))
        return states


class Convolution(Layer):
    """A convolution of k positions around each one, over all features or over each one apart."""

    def __init__(self, width: int, kernel: int, separable: bool = False) -> None:
        super().__init__()
        groups = width if separable else 1
        self.layers = nn.Sequential(nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups))
        if separable:
            self.layers.append(nn.Conv1d(width, width, 1))

    def forward(self, x: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
        """One layer on a sequence of n positions."""
        outputs: Tensor = self.layers(x.transpose(1, 2))
        return outputs.transpose(1, 2)


class DilatedConvolution(Layer):
    """A convolution of a position and the k - 1 that lie a dilation apart before it, as in ByteNet's decoder.

    With kernels to both sides, some paths would need positions before the first one.
    """

    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.before = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(width, width, kernel, dilation=dilation)

    def forward(self, x: Float[Tensor, "1 n D"]) -> Float[Tensor, "1 n D"]:
        """One layer on a sequence of n positions."""
        outputs: Tensor = self.convolution(nn.functional.pad(x.transpose(1, 2), (self.before, 0)))
        return outputs.transpose(1, 2)


def self_attention(width: int) -> Layer:
    """Heads of 64 features, as in the base model."""
    return SelfAttention(width, MultiHeadAttention(*sizes(width)))


def restricted(width: int, neighbourhood: int) -> Layer:
    """Self-attention to a neighbourhood of `neighbourhood` positions."""
    attention = RestrictedAttention(*sizes(width))
    attention.radius = neighbourhood // 2
    return SelfAttention(width, attention)


def sizes(width: int) -> tuple[int, int, int, int]:
    """d_model, heads, d_k and d_v."""
    heads = max(1, width // HEAD_WIDTH)
    return width, heads, width // heads, width // heads


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1."""

    name: str
    build: Callable[[int, int], Layer]
    """From a width and the number of layers below it in a stack to a layer."""
    complexity: str
    """The paper's, for n positions and d features."""
    sequential_text: str
    """The paper's number of sequential operations."""
    path_text: str
    """The paper's maximum path length."""


KERNEL, NEIGHBOURHOOD = 5, 32
ROWS = (
    LayerType(
        "self-attention",
        lambda width, _: self_attention(width),
        "O(n²·d)",
        "O(1)",
        "O(1)",
    ),
    LayerType(
        "recurrent (LSTM)",
        lambda width, _: Recurrent(width),
        "O(n·d²)",
        "O(n)",
        "O(n)",
    ),
    LayerType(
        f"convolutional, k = {KERNEL}",
        lambda width, _: Convolution(width, KERNEL),
        "O(k·n·d²)",
        "O(1)",
        "O(n/k)",
    ),
    LayerType(
        f"convolutional, k = {KERNEL}, dilated",
        lambda width, depth: DilatedConvolution(width, KERNEL, KERNEL**depth),
        "O(k·n·d²)",
        "O(1)",
        "O(log_k n)",
    ),
    LayerType(
        f"separable convolution, k = {KERNEL}",
        lambda width, _: Convolution(width, KERNEL, separable=True),
        "O(k·n·d + n·d²)",
        "O(1)",
        "O(n/k)",
    ),
    LayerType(
        f"self-attention, restricted to r = {NEIGHBOURHOOD}",
        lambda width, _: restricted(width, NEIGHBOURHOOD),
        "O(r·n·d)",
        "O(1)",
        "O(n/r)",
    ),
)
"""Table 1, with a kernel and a neighbourhood of sizes that this machine can show."""
