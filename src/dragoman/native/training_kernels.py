"""C++ kernels for training on a CPU, as functions with gradients: the steps between matrix products.

oneDNN computes the products themselves. native/fused.py names the oracle of each function. Shapes as in
model/attention.py, model/transformer.py and model/loss.py.
"""

import sys
from ctypes import sizeof
from typing import Any

import torch
from jaxtyping import BFloat16, Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.model.settings import Precision
from dragoman.native.build import TRAINING_KERNELS, start_compiling
from dragoman.native.dropout import DropoutMask
from dragoman.native.kernel_library import (
    AttentionArguments,
    CrossEntropyArguments,
    DropoutArguments,
    DropoutMaskFields,
    FeedForwardArguments,
    ResidualArguments,
    TransposeArguments,
    check_status,
    loaded_kernels,
)
from dragoman.native.packed_linear import can_pack, onednn_linear
from dragoman.system.device import is_cpu

COLUMNS = 4096  # of a product at once: oneDNN is slow for many wider ones of bfloat16
PRECISIONS: dict[torch.dtype, Precision] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def supports(x: Tensor) -> bool:
    """Whether the kernels support a tensor: float32 or bfloat16 on a CPU."""
    return is_cpu(x.device) and x.dtype in PRECISIONS


def start_compiling_kernels() -> bool:
    """Start to compile the kernels in a thread; False if that is impossible.

    They run in the threads of PyTorch's OpenMP library, which is GCC's on Linux.
    """
    return sys.platform == "linux" and start_compiling(TRAINING_KERNELS) is not None


def _mask_fields(mask: DropoutMask | None) -> DropoutMaskFields:
    return DropoutMaskFields() if mask is None else DropoutMaskFields(mask.key, mask.threshold, mask.scale)


# ---- dropout, and LayerNorm(x + Dropout(y))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: DropoutMask) -> Tensor:
        ctx.mask = mask
        out, width = torch.empty_like(x), x.size(-1)
        arguments = DropoutArguments(
            threads=torch.get_num_threads(),
            rows=x.numel() // width,
            width=width,
            x=x.data_ptr(),
            out=out.data_ptr(),
            mask=_mask_fields(mask),
        )
        check_status(
            loaded_kernels().dragoman_dropout(arguments, sizeof(arguments), x.dtype == torch.bfloat16)
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Dropout.forward(ctx, gradient.contiguous(), ctx.mask), None


def dropout(x: Float[Tensor, "*N D"], mask: DropoutMask) -> Float[Tensor, "*N D"]:
    """Dropout (section 5.4) in float32 or bfloat16."""
    return _Dropout.apply(x.contiguous(), mask)


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, gain: Tensor, bias: Tensor, epsilon: float, mask: DropoutMask | None
    ) -> Tensor:
        width = x.size(-1)
        out, normal = torch.empty_like(x), torch.empty_like(x)
        scales = x.new_empty(x.shape[:-1], dtype=torch.float32)
        arguments = ResidualArguments(
            threads=torch.get_num_threads(),
            rows=x.numel() // width,
            width=width,
            x=x.data_ptr(),
            y=y.data_ptr(),
            out=out.data_ptr(),
            normal=normal.data_ptr(),
            scales=scales.data_ptr(),
            gain=gain.data_ptr(),
            bias=bias.data_ptr(),
            epsilon=epsilon,
            has_mask=mask is not None,
            mask=_mask_fields(mask),
        )
        check_status(
            loaded_kernels().dragoman_residual_forward(
                arguments, sizeof(arguments), x.dtype == torch.bfloat16
            )
        )
        ctx.save_for_backward(normal, scales, gain)
        ctx.mask = mask
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normal, scales, gain = ctx.saved_tensors
        gradient, width = gradient.contiguous(), gradient.size(-1)
        x, y = torch.empty_like(gradient), torch.empty_like(gradient)
        sums = scales.new_zeros(2, torch.get_num_threads(), width)
        arguments = ResidualArguments(
            threads=sums.size(1),
            rows=gradient.numel() // width,
            width=width,
            x=x.data_ptr(),
            y=y.data_ptr(),
            out=gradient.data_ptr(),
            normal=normal.data_ptr(),
            scales=scales.data_ptr(),
            gain=gain.data_ptr(),
            gain_gradient=sums[0].data_ptr(),
            bias_gradient=sums[1].data_ptr(),
            has_mask=ctx.mask is not None,
            mask=_mask_fields(ctx.mask),
        )
        bfloat16 = gradient.dtype == torch.bfloat16
        check_status(loaded_kernels().dragoman_residual_backward(arguments, sizeof(arguments), bfloat16))
        return x, y, *sums.sum(1), None, None


def residual(
    x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"], mask: DropoutMask | None, norm: nn.LayerNorm
) -> Float[Tensor, "B T D"]:
    """norm(x + dropout(y)) (sections 3.1 and 5.4), in the precision of y, float32 or bfloat16."""
    return _Residual.apply(
        x.to(y.dtype).contiguous(), y.contiguous(), norm.weight.float(), norm.bias.float(), norm.eps, mask
    )


# ---- x Wᵀ + b


def transpose(x: BFloat16[Tensor, "N D"]) -> BFloat16[Tensor, "D N"]:
    """xᵀ as a copy whose rows are contiguous."""
    x, (rows, columns) = x.contiguous(), x.shape
    # An odd number of cache lines: columns do not compete for the same cache sets.
    stride = 32 * (-(-rows // 32) | 1)
    out = x.new_empty(columns, stride)
    out[:, rows:] = 0.0  # oneDNN reads some of these too, and multiplies them by 0
    arguments = TransposeArguments(
        threads=torch.get_num_threads(),
        rows=rows,
        columns=columns,
        stride=stride,
        x=x.data_ptr(),
        out=out.data_ptr(),
    )
    check_status(loaded_kernels().dragoman_transpose(arguments, sizeof(arguments)))
    return out[:, :rows]


def _weight_gradient(gradient: Float[Tensor, "N E"], x: Float[Tensor, "N D"]) -> Float[Tensor, "E D"]:
    """The gradient of W, in float32.

    oneDNN sums over rows faster if bfloat16 is transposed first; this pays if one side is much narrower.
    """
    narrow, wide = sorted((gradient.size(1), x.size(1)))
    if gradient.dtype != torch.bfloat16 or wide < 3 * narrow:
        return (gradient.t() @ x).float()
    if gradient.size(1) == narrow:
        return (transpose(gradient) @ x).float()
    return transpose(transpose(x) @ gradient).float()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight = weight.to(x.dtype)
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        out = x.new_empty(len(x), len(weight))
        for rows, columns in zip(weight.split(COLUMNS), out.split(COLUMNS, 1), strict=True):
            torch.mm(x, rows.t(), out=columns)
        return out if bias is None else out.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, _weight_gradient(gradient, x), gradient.sum(0) if ctx.has_bias else None


def linear(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"] | None
) -> Float[Tensor, "N V"]:
    """Logits x Wᵀ + b (section 3.4), in the precision of linear maps."""
    return _Linear.apply(x.to(product_dtype(x)), weight, bias)


# ---- max(0, x W_1 + b_1) W_2 + b_2


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, inner: Tensor, inner_bias: Tensor, outer: Tensor, outer_bias: Tensor
    ) -> Tensor:
        inner, inner_bias, outer, outer_bias = (
            weight.to(x.dtype) for weight in (inner, inner_bias, outer, outer_bias)
        )
        hidden = onednn_linear(x, inner, inner_bias, "relu")
        ctx.save_for_backward(x, hidden, inner, outer)
        return onednn_linear(hidden, outer, outer_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        x, hidden, inner, outer = ctx.saved_tensors
        hidden_gradient = gradient @ outer
        sums = hidden_gradient.new_zeros(torch.get_num_threads(), hidden.size(1), dtype=torch.float32)
        outer_gradient = _weight_gradient(gradient, hidden)
        arguments = FeedForwardArguments(
            threads=len(sums),
            rows=len(hidden),
            width=hidden.size(1),
            hidden=hidden.data_ptr(),
            gradient=hidden_gradient.data_ptr(),
            bias_gradient=sums.data_ptr(),
        )
        bfloat16 = hidden.dtype == torch.bfloat16
        check_status(loaded_kernels().dragoman_feed_forward_backward(arguments, sizeof(arguments), bfloat16))
        x_gradient, inner_gradient = hidden_gradient @ inner, _weight_gradient(hidden_gradient, x)
        return x_gradient, inner_gradient, sums.sum(0), outer_gradient, gradient.sum(0)


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype that linear maps of `x` compute in."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def supports_linear(x: Tensor) -> bool:
    """Whether the kernels support linear maps of `x`: oneDNN has to multiply its dtype."""
    return supports(x) and product_dtype(x) in PRECISIONS and can_pack(PRECISIONS[product_dtype(x)])


def feed_forward(x: Float[Tensor, "B T D"], inner: nn.Linear, outer: nn.Linear) -> Float[Tensor, "B T D"]:
    """max(0, x W_1 + b_1) W_2 + b_2 (section 3.3), in the precision of linear maps.

    In oneDNN max(0, NaN) is 0: NaN shows in the gradient and in the residual sum.
    """
    rows = x.flatten(0, 1).to(product_dtype(x))
    return _FeedForward.apply(rows, inner.weight, inner.bias, outer.weight, outer.bias).view_as(x)


# ---- softmax(Q Kᵀ / √d_k) V


def _attention_arguments(query: Tensor, key: Tensor, value: Tensor, weights: Tensor) -> AttentionArguments:
    """What the forward and the backward pass have in common. The tensors must outlive the arguments."""
    sentences, heads, queries, key_width = query.shape
    return AttentionArguments(
        threads=torch.get_num_threads(),
        sentences=sentences,
        heads=heads,
        queries=queries,
        keys=key.size(2),
        key_width=key_width,
        value_width=value.size(3),
        query=query.data_ptr(),
        key=key.data_ptr(),
        value=value.data_ptr(),
        query_strides=query.stride()[:3],
        key_strides=key.stride()[:3],
        value_strides=value.stride()[:3],
        weights=weights.data_ptr(),
        scale=key_width**-0.5,
    )


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool
    ) -> Tensor:
        sentences, heads, queries, _ = query.shape
        padded_keys = key.size(2) + -key.size(2) % 16
        weights = query.new_empty(sentences, heads, queries, padded_keys, dtype=torch.float32)
        out = query.new_empty(sentences, queries, heads * value.size(3))
        arguments = _attention_arguments(query, key, value, weights)
        arguments.out, arguments.causal = out.data_ptr(), causal
        if mask is not None:
            strides = mask.expand(sentences, 1, queries, -1).stride()
            arguments.mask = mask.data_ptr()
            arguments.mask_sentence_stride, arguments.mask_query_stride = strides[0], strides[2]
        bfloat16 = query.dtype == torch.bfloat16
        check_status(loaded_kernels().dragoman_attention_forward(arguments, sizeof(arguments), bfloat16))
        ctx.save_for_backward(query, key, value, weights)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights = ctx.saved_tensors
        gradient = gradient.contiguous()
        query_gradient, key_gradient, value_gradient = (
            torch.empty_like(heads.transpose(1, 2), memory_format=torch.contiguous_format)
            for heads in (query, key, value)
        )
        arguments = _attention_arguments(query, key, value, weights)
        arguments.out = gradient.data_ptr()
        arguments.query_gradient = query_gradient.data_ptr()
        arguments.key_gradient = key_gradient.data_ptr()
        arguments.value_gradient = value_gradient.data_ptr()
        bfloat16 = query.dtype == torch.bfloat16
        check_status(loaded_kernels().dragoman_attention_backward(arguments, sizeof(arguments), bfloat16))
        gradients = (query_gradient, key_gradient, value_gradient)
        return *(heads.transpose(1, 2) for heads in gradients), None, None


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
    rows = [heads if heads.stride(-1) == 1 else heads.contiguous() for heads in (query, key, value)]
    return _Attention.apply(
        *rows, mask if mask is None or mask.stride(-1) == 1 else mask.contiguous(), causal
    )


# ---- label-smoothed cross-entropy


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        rows, vocabulary = len(gold), logits.size(1)
        log_sums = logits.new_empty(rows, 2, dtype=torch.float32)
        loss, nll = logits.new_empty(2, rows, dtype=torch.float64)
        arguments = CrossEntropyArguments(
            threads=torch.get_num_threads(),
            rows=rows,
            vocabulary=vocabulary,
            logits=logits.data_ptr(),
            gold=gold.data_ptr(),
            log_sums=log_sums.data_ptr(),
            loss=loss.data_ptr(),
            nll=nll.data_ptr(),
            smoothing=smoothing,
        )
        bfloat16 = logits.dtype == torch.bfloat16
        check_status(loaded_kernels().dragoman_cross_entropy_forward(arguments, sizeof(arguments), bfloat16))
        ctx.save_for_backward(logits.detach(), gold, log_sums)
        ctx.smoothing = smoothing
        nll = nll.sum()
        ctx.mark_non_differentiable(nll)
        return loss.sum(), nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        logits, gold, log_sums = ctx.saved_tensors
        arguments = CrossEntropyArguments(
            threads=torch.get_num_threads(),
            rows=len(gold),
            vocabulary=logits.size(1),
            logits=logits.data_ptr(),
            gold=gold.data_ptr(),
            log_sums=log_sums.data_ptr(),
            smoothing=ctx.smoothing,
            factor=loss_gradient.item(),
        )
        bfloat16 = logits.dtype == torch.bfloat16
        check_status(loaded_kernels().dragoman_cross_entropy_backward(arguments, sizeof(arguments), bfloat16))
        logits[len(gold) :] = 0.0
        return logits, None, None


def cross_entropy(
    logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Smoothed loss and negative log-likelihood (section 5.4), in nats, summed over the first N rows.

    The backward pass puts the gradient in the place of the logits.
    """
    return _CrossEntropy.apply(logits.contiguous(), gold.contiguous(), smoothing)
