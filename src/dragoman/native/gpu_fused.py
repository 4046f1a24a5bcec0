"""Replacements for a model's modules in training on a GPU, with the kernels of gpu_kernels.py.

Each class extends its oracle; fused.py chooses them.
"""

import math
from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import KeysValues, MultiHeadAttention, Projections, attention, causal_mask
from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.transformer import FeedForward, Residual, Transformer
from dragoman.native import gpu_kernels as kernels
from dragoman.native.gpu_kernels import ALIGNMENT, DTYPES, DropoutMask
from dragoman.native.training_kernels import product_dtype
from dragoman.system.errors import is_out_of_memory

TOLERANCE = 0.05  # of attention in bfloat16 to numbers of at most 1


@cache
def compiles(device: torch.device) -> bool:
    """Whether Triton compiles for a GPU, which needs a C compiler and Python's headers.

    It compiles attention of one head and compares it with the oracle. Raises an error for lack of memory.
    """
    numbers = torch.linspace(-1, 1, 3 * 16 * 16, device=device, dtype=torch.bfloat16)
    query, key, value = numbers.view(3, 1, 1, 16, 16)
    try:
        actual = kernels.attention(query, key, value, None, causal=True)
    except Exception as error:  # of Triton, of the C compiler or of the system
        if is_out_of_memory(error):
            raise
        return False
    expected, _ = attention(query.double(), key.double(), value.double(), causal_mask(16, 16, device))
    return bool((actual.double().flatten() - expected.flatten()).abs().max() < TOLERANCE)


class GPUDropout(nn.Dropout):
    """Oracle: `torch.nn.Dropout`; the masks are those of native/dropout.py for a key from the GPU."""

    def draw(self, device: torch.device) -> DropoutMask | None:
        """The next mask; None where nothing is dropped."""
        return DropoutMask.draw(self.p, device) if self.training else None

    def forward(self, input: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:  # noqa: A002  PyTorch's name
        """Each element is 0 with probability p, or divided by 1 − p; in evaluation nothing changes."""
        if input.dtype not in DTYPES:
            return super().forward(input)
        mask = self.draw(input.device)
        return input if mask is None else kernels.dropout(input, mask)


class GPUResidual(Residual):
    """Oracle: `Residual`."""

    dropout: GPUDropout

    def after(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        if not self.training or self.pre or y.dtype not in DTYPES:
            return super().after(x, y)
        return kernels.residual(x, y, self.dropout.draw(y.device), self.norm)


class GPUFeedForward(FeedForward):
    """Oracle: `FeedForward`."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        aligned = self.inner.in_features % ALIGNMENT == self.inner.out_features % ALIGNMENT == 0
        if not self.training or self.activation is not F.relu or not aligned or x.dtype not in DTYPES:
            return super().forward(x)
        return kernels.feed_forward(x, self.inner, self.outer)


class GPULinear(nn.Linear):
    """Oracle: `torch.nn.Linear`; the gradient of the weight is not rounded to bfloat16 first."""

    def forward(self, input: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:  # noqa: A002  PyTorch's name
        """The product x Wᵀ + b, with any leading dimensions."""
        if not self.training or input.dtype not in DTYPES:
            return super().forward(input)
        return kernels.linear(input, self.weight, self.bias)


class GPUProjections(GPULinear, Projections):
    """Oracle: `Projections`."""

    def project_rows(self, x: Float[Tensor, "*N D"], start: int, stop: int | None) -> Float[Tensor, "*N E"]:
        if not self.training or x.dtype not in DTYPES:
            return super().project_rows(x, start, stop)
        bias = None if self.bias is None else self.bias[start:stop]
        return kernels.linear(x, self.weight[start:stop], bias)


class GPUAttention(MultiHeadAttention):
    """Oracle: `MultiHeadAttention`."""

    def project(self, x: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B H T K"], KeysValues]:
        query, key, value = kernels.split(self.query_key_value(x), self.widths)
        return self._split_heads(query), KeysValues(self._split_heads(key), self._split_heads(value))

    def project_memory(self, encoder_output: Float[Tensor, "B N D"]) -> KeysValues:
        projected = self.query_key_value.project_rows(encoder_output, self.widths[0], None)
        key, value = kernels.split(projected, self.widths[1:])
        return KeysValues(self._split_heads(key), self._split_heads(value))

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        if (
            not self.training
            or self.dropout
            or self.attention_weights_hook is not None
            or not kernels.supports_attention(query, *memory)
        ):
            return super().attend(query, memory, mask, causal)
        return self.output(kernels.attention(query, *memory, mask, causal))


class GPUTransformer(Transformer):
    """Oracle: `Transformer`."""

    def embed(
        self, ids: Tensor, embedding: nn.Embedding, positions: Float[Tensor, "T D"]
    ) -> Float[Tensor, "B T D"]:
        if not self.training or self.settings.norm == "pre" or not self.settings.scale_embeddings:
            return super().embed(ids, embedding, positions)
        x = torch.add(positions, embedding(ids), alpha=math.sqrt(self.settings.d_model))
        return self.dropout(x.to(product_dtype(x)))  # the next module would round it

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        if not self.training or features.dtype not in DTYPES:
            return super().logits(features)
        return kernels.linear(features, self.output.weight, self.output_bias)


class GPUCrossEntropy(LabelSmoothedCrossEntropy):
    """Oracle: `LabelSmoothedCrossEntropy`."""

    padding: int | None = None
    """A token whose predictions count for nothing; see training/graphs.py."""

    def forward(
        self, logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        if logits.dtype not in DTYPES:
            return super().forward(logits, gold)
        return kernels.cross_entropy(logits, gold, self.smoothing, self.padding)


ON_A_GPU: dict[type[nn.Module], type[nn.Module]] = {
    LabelSmoothedCrossEntropy: GPUCrossEntropy,
    nn.Dropout: GPUDropout,
    nn.Linear: GPULinear,
    Projections: GPUProjections,
    Residual: GPUResidual,
    FeedForward: GPUFeedForward,
    MultiHeadAttention: GPUAttention,
    Transformer: GPUTransformer,
}
