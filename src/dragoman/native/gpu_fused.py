"""Replacements for a model's modules in training on a GPU, with the kernels of gpu_kernels.py.

Each class extends its oracle; fused.py chooses them.
"""

from functools import cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.transformer import FeedForward, Residual, Transformer
from dragoman.native import gpu_kernels as kernels
from dragoman.native.gpu_kernels import ALIGNMENT, DTYPES, DropoutMask


@cache
def compiles(device: torch.device) -> bool:
    """Whether Triton compiles for a GPU, which needs a C compiler and Python's headers."""
    try:
        mask = DropoutMask(torch.zeros((), dtype=torch.int64, device=device), 0, 1.0)
        kernels.dropout(torch.zeros(1, device=device), mask)
    except Exception:  # of Triton, of the C compiler or of the system
        return False
    return True


class GPUDropout(nn.Dropout):
    """Oracle: `torch.nn.Dropout`; the masks are those of native/dropout.py for a key from the GPU."""

    def draw(self, device: torch.device) -> DropoutMask | None:
        """The next mask; None where nothing is dropped."""
        return DropoutMask.draw(self.p, device) if self.training and self.p else None

    def forward(self, input: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:  # noqa: A002  PyTorch's name
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

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        if not self.training or features.ndim != 2:
            return super().logits(features)
        return kernels.linear(features, self.output.weight, self.output_bias)


class GPUCrossEntropy(LabelSmoothedCrossEntropy):
    """Oracle: `LabelSmoothedCrossEntropy`."""

    def forward(
        self, logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        if logits.dtype not in DTYPES:
            return super().forward(logits, gold)
        return kernels.cross_entropy(logits, gold, self.smoothing)


ON_A_GPU: dict[type[nn.Module], type[nn.Module]] = {
    LabelSmoothedCrossEntropy: GPUCrossEntropy,
    nn.Dropout: GPUDropout,
    Residual: GPUResidual,
    FeedForward: GPUFeedForward,
    MultiHeadAttention: GPUAttention,
    Transformer: GPUTransformer,
}
