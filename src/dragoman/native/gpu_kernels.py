"""Kernels for training on a GPU, as functions with gradients: the steps between matrix products.

The kernels are those of triton_kernels.py; cuBLAS computes the products themselves. gpu_fused.py names the
oracle of each function. Shapes as in model/attention.py, model/transformer.py and model/loss.py.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from triton import next_power_of_2

from dragoman.native import triton_kernels
from dragoman.native.dropout import threshold_and_scale
from dragoman.native.training_kernels import product_dtype
from dragoman.system.device import is_cpu

DTYPES = (torch.float32, torch.bfloat16)
SUMMED_ROWS = 128  # that one program adds up; up to twice as many in the last step
LONGEST = 128  # queries and keys of a head that one program keeps in registers
HEAD_WIDTHS = (16, 32, 64, 128)
MAX_WIDTH = max(HEAD_WIDTHS)
ALIGNMENT = 8  # numbers of bfloat16: tensor cores read fast where a row begins at a multiple of 16 bytes
MAX_PARTS = 2112  # programs that add up gradients of the same weights: 16 for each of 132 multiprocessors


# ---- dropout, and LayerNorm(x + Dropout(y))


class DropoutMask(NamedTuple):
    """As in native/dropout.py.

    The key is a tensor on the GPU: the host does not wait for it. A replay of a CUDA graph draws a new one.
    """

    key: Int64[Tensor, ""]
    threshold: int
    scale: float

    @classmethod
    def draw(cls, p: float, device: torch.device) -> "DropoutMask | None":
        """A mask that drops with probability p, as `threshold_and_scale` rounds it; None for 0."""
        if (rounded := threshold_and_scale(p)) is None:
            return None
        return cls(torch.empty((), dtype=torch.int64, device=device).random_(), *rounded)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: DropoutMask) -> Tensor:
        ctx.mask = mask
        out = torch.empty_like(x)
        triton_kernels.dropout[(triton.cdiv(x.numel(), 1024),)](x, out, *mask, x.numel(), BLOCK=1024)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Dropout.forward(ctx, gradient.contiguous(), ctx.mask), None


def dropout(x: Float[Tensor, "*N D"], mask: DropoutMask) -> Float[Tensor, "*N D"]:
    """Dropout (section 5.4)."""
    return _Dropout.apply(x.contiguous(), mask)


def _constants(width: int, mask: DropoutMask | None) -> dict[str, int]:
    """The constants that both kernels of a residual connection need."""
    rounded = next_power_of_2(width)
    warps = min(max(rounded // 512, 1), 8)
    return {"MASKED": mask is not None, "GROUPED": width % 4 == 0, "WIDTH": rounded, "num_warps": warps}


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, gain: Tensor, bias: Tensor, epsilon: float, mask: DropoutMask | None
    ) -> Tensor:
        width = x.size(-1)
        rows = x.numel() // width
        out, normalised = torch.empty_like(x), torch.empty_like(x)
        inverse_std = x.new_empty(rows, dtype=torch.float32)
        if rows:
            triton_kernels.residual_forward[(rows,)](
                *(x, y, out, normalised, inverse_std, gain, bias, epsilon),
                *(mask or (inverse_std, 0, 1.0)),
                width,
                **_constants(width, mask),
            )
        ctx.save_for_backward(normalised, inverse_std, gain)
        ctx.mask = mask
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normalised, inverse_std, gain = ctx.saved_tensors
        gradient, width, rows = gradient.contiguous(), gradient.size(-1), len(inverse_std)
        x_gradient = torch.empty_like(gradient)
        y_gradient = x_gradient if ctx.mask is None else torch.empty_like(gradient)
        parts = min(rows, MAX_PARTS)
        sums = inverse_std.new_empty(parts, 2 * width)
        if rows:
            triton_kernels.residual_backward[(parts,)](
                *(gradient, normalised, inverse_std, gain, x_gradient, y_gradient, sums),
                *(ctx.mask or (inverse_std, 0, 1.0)),
                *(rows, width),
                **_constants(width, ctx.mask),
            )
        return x_gradient, y_gradient, *column_sum(sums).split(width), None, None


def residual(
    x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"], mask: DropoutMask | None, norm: nn.LayerNorm
) -> Float[Tensor, "B T D"]:
    """norm(x + dropout(y)) (sections 3.1 and 5.4), in the precision of y."""
    return _Residual.apply(
        x.to(y.dtype).contiguous(), y.contiguous(), norm.weight.float(), norm.bias.float(), norm.eps, mask
    )


# ---- max(0, x W_1 + b_1) W_2 + b_2


def column_sum(gradient: Tensor, hidden: Tensor | None = None) -> Tensor:
    """The sum of the rows in float32. With `hidden`, ReLU's backward pass overwrites `gradient` first."""
    rows, width = gradient.shape
    if rows == 0:
        return gradient.new_zeros(width, dtype=torch.float32)
    part = SUMMED_ROWS if rows > 2 * SUMMED_ROWS else rows
    sums = gradient.new_empty(triton.cdiv(rows, part), width, dtype=torch.float32)
    columns = 64 if len(sums) > 1 else 8  # more programs where each sums all rows
    triton_kernels.column_sums[(triton.cdiv(width, columns), len(sums))](
        *(gradient if hidden is None else hidden, gradient, sums, rows, width, part),
        RELU=hidden is not None,
        ROWS=SUMMED_ROWS,
        COLUMNS=columns,
    )
    return sums[0] if len(sums) == 1 else column_sum(sums)


def _weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of W in x Wᵀ, in float32."""
    if x.dtype == torch.float32 or is_cpu(x.device):  # the interpreter's
        return (gradient.t() @ x).float()
    return torch.mm(gradient.t(), x, out_dtype=torch.float32)


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, inner: Tensor, inner_bias: Tensor, outer: Tensor, outer_bias: Tensor
    ) -> Tensor:
        inner, inner_bias, outer, outer_bias = (
            weight.to(x.dtype) for weight in (inner, inner_bias, outer, outer_bias)
        )
        hidden = torch._addmm_activation(inner_bias, x, inner.t())
        ctx.save_for_backward(x, hidden, inner, outer)
        return torch.addmm(outer_bias, hidden, outer.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, hidden, inner, outer = ctx.saved_tensors
        gradient = gradient.contiguous()
        _, inner_trains, _, outer_trains, _ = ctx.needs_input_grad
        hidden_gradient = gradient @ outer
        outer_gradient = _weight_gradient(gradient, hidden) if outer_trains else None
        bias_gradient = column_sum(hidden_gradient, hidden)
        x_gradient = hidden_gradient @ inner
        inner_gradient = _weight_gradient(hidden_gradient, x) if inner_trains else None
        return x_gradient, inner_gradient, bias_gradient, outer_gradient, column_sum(gradient)


def feed_forward(x: Float[Tensor, "B T D"], inner: nn.Linear, outer: nn.Linear) -> Float[Tensor, "B T D"]:
    """max(0, x W_1 + b_1) W_2 + b_2 (section 3.3), in the precision of linear maps."""
    rows = x.flatten(0, 1).to(product_dtype(x))
    return _FeedForward.apply(rows, inner.weight, inner.bias, outer.weight, outer.bias).view_as(x)


# ---- softmax(Q Kᵀ / √d_k) V


def _arguments(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool
) -> tuple[list[float], dict[str, int]]:
    """The strides, sizes and constants that both kernels need."""
    sentences, heads, queries, width = query.shape
    keys = key.size(2)
    strides = [*query.stride()[:3], *key.stride()[:3], *value.stride()[:3]]
    strides += (0, 0) if mask is None else mask.expand(sentences, 1, queries, -1).stride()[0:3:2]
    rounded_queries, rounded_keys = (max(16, next_power_of_2(count)) for count in (queries, keys))
    longest = max(rounded_queries, rounded_keys)
    return [*strides, heads, queries, keys, width**-0.5], {
        "CAUSAL": causal,
        "MASKED": mask is not None,
        "K": width,
        "KV": value.size(3),
        "T": rounded_queries,
        "N": rounded_keys,
        "num_warps": longest // 16 if longest > 32 else 1,
    }


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        sentences, heads, queries, _ = query.shape
        out = query.new_empty(sentences, queries, heads * value.size(3))
        numbers, constants = _arguments(query, key, value, mask, causal)
        triton_kernels.attention_forward[(sentences * heads,)](
            query, key, value, mask, out, *numbers, **constants
        )
        ctx.save_for_backward(query, key, value, mask)
        ctx.causal = causal
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mask = ctx.saved_tensors
        gradients = _gradients_like(query, key, value)
        numbers, constants = _arguments(query, key, value, mask, ctx.causal)
        triton_kernels.attention_backward[(query.size(0) * query.size(1),)](
            query, key, value, mask, gradient.contiguous(), *gradients, *numbers, **constants
        )
        return *gradients, None, None


def _gradients_like(*parts: Tensor) -> list[Tensor]:
    """Empty gradients with the strides of the parts. Those of parts that share a storage share one too."""
    buffers = {
        part.untyped_storage().data_ptr(): part.new_empty(part.untyped_storage().nbytes() // part.itemsize)
        for part in parts
    }
    return [
        buffers[part.untyped_storage().data_ptr()].as_strided(
            part.shape, part.stride(), part.storage_offset()
        )
        for part in parts
    ]


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, widths: list[int]) -> tuple[Tensor, ...]:
        ctx.widths = widths
        return tuple(x.split(widths, -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        first, total = gradients[0], sum(ctx.widths)
        shape = (*first.shape[:-1], total)
        strides = (first.size(1) * total, total, 1)
        offsets = [0, *accumulate(ctx.widths)]
        is_adjacent = all(
            gradient.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            and gradient.storage_offset() == offset
            and gradient.stride() == strides
            for gradient, offset in zip(gradients, offsets, strict=False)
        )
        return first.as_strided(shape, strides, 0) if is_adjacent else torch.cat(gradients, -1), None


def split(x: Float[Tensor, "B T E"], widths: list[int]) -> tuple[Float[Tensor, "B T F"], ...]:
    """`x.split(widths, -1)`; gradients that lie side by side, as those of `attention` do, are not copied."""
    return _Split.apply(x.contiguous(), widths)


def supports_attention(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the kernels support heads of this precision and these shapes.

    Kernels for float32, without tensor cores, would take minutes to compile.
    """
    widths = query.size(3), value.size(3)
    longest = LONGEST if max(widths) < MAX_WIDTH else LONGEST // 2  # as shared memory allows
    lengths = query.size(2), key.size(2)
    return (
        query.dtype == torch.bfloat16
        and all(width in HEAD_WIDTHS for width in widths)
        and all(0 < length <= longest for length in lengths)
    )


def attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H N K"],
    value: Float[Tensor, "B H N Kv"],
    mask: Bool[Tensor, "#B 1 #T N"] | None,
    causal: bool,
) -> Float[Tensor, "B T HKv"]:
    """Equation 1 (section 3.2) of each head, the heads side by side.

    `causal` lets each of the last T positions attend to itself and to what is before it.
    """
    parts = [query, key, value]
    # Gradients have the strides of the parts, so no two numbers may share a place.
    if len({part.data_ptr() for part in parts}) < len(parts):
        parts = [part.clone() for part in parts]
    parts = [part if part.stride(-1) == 1 and 0 not in part.stride() else part.contiguous() for part in parts]
    return _Attention.apply(
        *parts, mask if mask is None or mask.stride(-1) == 1 else mask.contiguous(), causal
    )


# ---- x Wᵀ + b, and label-smoothed cross-entropy


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight = weight.to(x.dtype)
        ctx.save_for_backward(x, weight)
        width = len(weight)
        out = x.new_empty(len(x), width + -width % ALIGNMENT)[:, :width]
        torch.mm(x, weight.t(), out=out)
        return out if bias is None else out.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        weight_gradient = _weight_gradient(gradient, x) if ctx.needs_input_grad[1] else None
        bias_gradient = gradient.sum(0, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        return gradient @ weight, weight_gradient, bias_gradient


def linear(
    x: Float[Tensor, "*N D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, "E"] | None
) -> Float[Tensor, "*N E"]:
    """The linear map x Wᵀ + b, in the precision of linear maps.

    Rows of the result begin at multiples of 16 bytes: tensor cores are slow for others (experiments/LOG.md).
    """
    rows = x.reshape(-1, x.size(-1)).to(product_dtype(x))
    return _Linear.apply(rows, weight, bias).view(*x.shape[:-1], len(weight))


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, gold: Tensor, smoothing: float, padding: int
    ) -> tuple[Tensor, Tensor]:
        rows, vocabulary = len(gold), logits.size(1)
        log_sums, (loss, nll) = torch.zeros(4, rows, device=logits.device).split(2)
        if rows:
            triton_kernels.cross_entropy_forward[(rows,)](
                *(logits, logits.stride(0), gold, log_sums, loss, nll, smoothing, vocabulary, padding),
                BLOCK=512,
                num_warps=2,
            )
        ctx.save_for_backward(logits.detach(), gold, log_sums)
        ctx.smoothing, ctx.padding = smoothing, padding
        total = nll.sum(dtype=torch.float64)
        ctx.mark_non_differentiable(total)
        return loss.sum(dtype=torch.float64), total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        logits, gold, log_sums = ctx.saved_tensors
        rows, vocabulary = logits.shape
        if rows:
            triton_kernels.cross_entropy_backward[(rows * triton.cdiv(vocabulary, 1024),)](
                *(logits, logits.stride(0), gold, log_sums, loss_gradient, ctx.smoothing),
                *(len(gold), vocabulary, ctx.padding),
                BLOCK=1024,
                num_warps=4,
            )
        return logits, None, None, None


def cross_entropy(
    logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"], smoothing: float, padding: int | None = None
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Smoothed loss and negative log-likelihood (section 5.4), in nats, summed over the first N rows.

    Rows whose gold token is `padding` count for nothing. The backward pass puts the gradient in the place of
    the logits.
    """
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    return _CrossEntropy.apply(logits, gold.contiguous(), smoothing, -1 if padding is None else padding)
