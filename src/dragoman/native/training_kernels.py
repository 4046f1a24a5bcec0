"""What stands between the matrix products of a training step, on a CPU, in C++ (training_kernels.cpp): the same equations in fewer passes.

The products themselves are oneDNN's, which gets them as it likes them. Each function here has its equation, in PyTorch, where it is
called. Shapes as in attention.py, transformer.py and loss.py.
"""

import sys
from ctypes import Structure, byref, c_bool, c_float, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

import torch
from jaxtyping import BFloat16, Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.model.settings import Precision
from dragoman.native.build import TRAINING_KERNELS, library, start_compiling
from dragoman.native.dropout import DropoutMask
from dragoman.native.packed_linear import can_pack, onednn_linear

COLUMNS = 4096  # that a product gets at once: oneDNN makes many wider ones of bfloat16 at half the speed (Intel Xeon, AMX)
PRECISIONS: dict[torch.dtype, Precision] = {torch.float32: "float32", torch.bfloat16: "bfloat16"}


def supports(x: Tensor) -> bool:
    """Whether the kernels are for such a tensor: float32 or bfloat16 on a CPU."""
    return x.device.type == "cpu" and x.dtype in PRECISIONS


def start_compiling_kernels() -> bool:
    """Begin to compile them, in a thread; False where that cannot be.

    Only g++ on Linux has the very OpenMP that PyTorch computes with.
    """
    return sys.platform == "linux" and start_compiling(TRAINING_KERNELS) is not None


class _Job(Structure):
    """A struct of training_kernels.cpp: numbers, and where tensors lie, which live as long as it."""

    def __init__(self, **fields: Any) -> None:
        given = {name: value.data_ptr() if isinstance(value, Tensor) else value for name, value in fields.items()}
        super().__init__(**{"threads": torch.get_num_threads()} | given)
        self.kept = fields

    def run(self, kernel: str, precision: torch.dtype) -> None:
        """Call the kernel for numbers of this precision. Raises `RuntimeError` where memory does not suffice, as PyTorch does."""
        lib = library(TRAINING_KERNELS)
        assert lib is not None
        work = lib[f"dragoman_{kernel}"]
        work.restype = c_bool
        if not work(byref(self), precision == torch.bfloat16):
            raise RuntimeError(f"{kernel} can't allocate memory")


def _of(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


# ---- dropout, and LayerNorm(x + Dropout(y))


class _Drops(Structure):
    _fields_ = _of(c_uint64, "key") + _of(c_int32, "least") + _of(c_float, "survivors")


class _DropoutJob(_Job):
    _fields_ = _of(c_int64, "threads rows width") + _of(c_void_p, "x out") + _of(_Drops, "drops")


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, drops: DropoutMask) -> Tensor:
        ctx.drops = drops
        out, width = torch.empty_like(x), x.size(-1)
        _DropoutJob(rows=x.numel() // width, width=width, x=x, out=out, drops=_Drops(*drops)).run("dropout", x.dtype)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Dropout.forward(ctx, gradient.contiguous(), ctx.drops), None


def dropout(x: Float[Tensor, "*N D"], drops: DropoutMask) -> Float[Tensor, "*N D"]:
    """The numbers that survive, multiplied, and zeros (section 5.4); in float32 or bfloat16."""
    return _Dropout.apply(x.contiguous(), drops)


class _ResidualJob(_Job):
    _fields_ = (
        _of(c_int64, "threads rows width")
        + _of(c_void_p, "x y out normal scales gain bias gain_gradient bias_gradient")
        + _of(c_float, "epsilon")
        + _of(c_int32, "drops_any")
        + _of(_Drops, "drops")
    )


def _what_drops(x: Tensor, drops: DropoutMask | None) -> dict[str, Any]:
    """Those fields of a job that say what is dropped of how much."""
    width, how = x.size(-1), {} if drops is None else {"drops_any": True, "drops": _Drops(*drops)}
    return {"rows": x.numel() // width, "width": width, **how}


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, gain: Tensor, bias: Tensor, epsilon: float, drops: DropoutMask | None) -> Tensor:
        out, normal, scales = torch.empty_like(x), torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)
        tensors = {"x": x, "y": y, "out": out, "normal": normal, "scales": scales, "gain": gain, "bias": bias}
        _ResidualJob(**_what_drops(x, drops), **tensors, epsilon=epsilon).run("residual", x.dtype)
        ctx.save_for_backward(normal, scales, gain)
        ctx.drops = drops
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        normal, scales, gain = ctx.saved_tensors
        gradient = gradient.contiguous()
        x, y = torch.empty_like(gradient), torch.empty_like(gradient)
        sums = scales.new_zeros(2, torch.get_num_threads(), gradient.size(-1))
        tensors = {"x": x, "y": y, "out": gradient, "normal": normal, "scales": scales, "gain": gain}
        sums_there = {"threads": sums.size(1), "gain_gradient": sums[0], "bias_gradient": sums[1]}
        _ResidualJob(**_what_drops(x, ctx.drops), **tensors, **sums_there).run("residual_backward", gradient.dtype)
        return x, y, *sums.sum(1), None, None


def residual(x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"], drops: DropoutMask | None, norm: nn.LayerNorm) -> Float[Tensor, "B T D"]:
    """norm(x + dropout(y)) (sections 3.1 and 5.4), in the precision of y, float32 or bfloat16."""
    return _Residual.apply(x.to(y.dtype).contiguous(), y.contiguous(), norm.weight.float(), norm.bias.float(), norm.eps, drops)


# ---- x Wᵀ + b


class _TransposedJob(_Job):
    _fields_ = _of(c_int64, "threads rows columns stride") + _of(c_void_p, "x out")


def transposed(x: BFloat16[Tensor, "N D"]) -> BFloat16[Tensor, "D N"]:
    """The same numbers, those of a column side by side."""
    x, (rows, columns) = x.contiguous(), x.shape
    out = x.new_empty(columns, 32 * (-(-rows // 32) | 1))  # an odd number of cache lines: none falls upon that of another column
    out[:, rows:] = 0.0  # oneDNN reads some of these too, and multiplies them by 0
    _TransposedJob(rows=rows, columns=columns, stride=out.size(1), x=x, out=out).run("transposed", x.dtype)
    return out[:, :rows]


def _weight_gradient(gradient: Float[Tensor, "N E"], x: Float[Tensor, "N D"]) -> Float[Tensor, "E D"]:
    """The gradient of W, in float32.

    Where rows are summed over, oneDNN is up to 1.6 times as fast with bfloat16 that lies as `transposed` puts it (Intel Xeon, AMX). For a
    side that is much smaller than the other this pays.
    """
    narrow, wide = sorted((gradient.size(1), x.size(1)))
    if gradient.dtype != torch.bfloat16 or wide < 3 * narrow:
        return (gradient.t() @ x).float()
    if gradient.size(1) == narrow:
        return (transposed(gradient) @ x).float()
    return transposed(transposed(x) @ gradient).float()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight = weight.to(x.dtype)
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        out = x.new_empty(len(x), len(weight))
        for rows, columns in zip(weight.split(COLUMNS), out.split(COLUMNS, 1), strict=True):
            torch.mm(x, rows.t(), out=columns)
        return out if bias is None else out.add_(bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, _weight_gradient(gradient, x), gradient.sum(0) if ctx.biased else None


def linear(x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, "V"] | None) -> Float[Tensor, "N V"]:
    """Logits x Wᵀ + b (section 3.4), in the precision of linear maps."""
    return _Linear.apply(x.to(multiplied(x)), weight, bias)


# ---- max(0, x W_1 + b_1) W_2 + b_2


class _FeedForwardJob(_Job):
    _fields_ = _of(c_int64, "threads rows width") + _of(c_void_p, "hidden gradient bias_gradient")


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, inner: Tensor, inner_bias: Tensor, outer: Tensor, outer_bias: Tensor) -> Tensor:
        inner, inner_bias, outer, outer_bias = (weight.to(x.dtype) for weight in (inner, inner_bias, outer, outer_bias))
        hidden = onednn_linear(x, inner, inner_bias, "relu")
        ctx.save_for_backward(x, hidden, inner, outer)
        return onednn_linear(hidden, outer, outer_bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        x, hidden, inner, outer = ctx.saved_tensors
        of_hidden = gradient @ outer
        sums = of_hidden.new_zeros(torch.get_num_threads(), hidden.size(1), dtype=torch.float32)
        job = _FeedForwardJob(
            threads=len(sums), rows=len(hidden), width=hidden.size(1), hidden=hidden, gradient=of_hidden, bias_gradient=sums
        )
        of_outer = _weight_gradient(gradient, hidden)
        job.run("feed_forward_backward", hidden.dtype)
        return of_hidden @ inner, _weight_gradient(of_hidden, x), sums.sum(0), of_outer, gradient.sum(0)


def multiplied(x: Tensor) -> torch.dtype:
    """What linear maps make of such numbers."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype


def supports_linear(x: Tensor) -> bool:
    """Whether kernels are for linear maps of such numbers: oneDNN has to multiply them."""
    return supports(x) and multiplied(x) in PRECISIONS and can_pack(PRECISIONS[multiplied(x)])


def feed_forward(x: Float[Tensor, "B T D"], inner: nn.Linear, outer: nn.Linear) -> Float[Tensor, "B T D"]:
    """max(0, x W_1 + b_1) W_2 + b_2 (section 3.3), in the precision of linear maps.

    To oneDNN the maximum of 0 and what is no number is 0: that shows in the gradient, and in what x is added to.
    """
    rows = x.flatten(0, 1).to(multiplied(x))
    return _FeedForward.apply(rows, inner.weight, inner.bias, outer.weight, outer.bias).view_as(x)


# ---- softmax(Q Kᵀ / √d_k) V


class _AttentionJob(_Job):
    _fields_ = (
        _of(c_int64, "threads sentences heads queries keys key_width value_width")
        + _of(c_void_p, "query key value")
        + _of(c_int64 * 3, "of_query of_key of_value")
        + _of(c_void_p, "mask")
        + _of(c_int64, "mask_of_sentence mask_of_query")
        + _of(c_void_p, "weights out query_gradient key_gradient value_gradient")
        + _of(c_float, "scale")
        + _of(c_int32, "causal")
    )


def _what_looks(query: Tensor, key: Tensor, value: Tensor) -> dict[str, Any]:
    """Those fields of a job that say what looks at what."""
    sentences, heads, queries, key_width = query.shape
    return {
        "sentences": sentences, "heads": heads, "queries": queries, "keys": key.size(2),
        "key_width": key_width, "value_width": value.size(3), "scale": key_width**-0.5,
        "query": query, "key": key, "value": value,
        "of_query": query.stride()[:3], "of_key": key.stride()[:3], "of_value": value.stride()[:3],
    }  # fmt: skip


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        sentences, heads, queries, _ = query.shape
        weights = query.new_empty(sentences, heads, queries, key.size(2) + -key.size(2) % 16, dtype=torch.float32)
        out = query.new_empty(sentences, queries, heads * value.size(3))
        strides = (0, 0) if mask is None else mask.expand(sentences, 1, queries, -1).stride()
        allowed = {"mask": mask, "mask_of_sentence": strides[0], "mask_of_query": strides[-2], "causal": causal}
        _AttentionJob(**_what_looks(query, key, value), **allowed, weights=weights, out=out).run("attention", query.dtype)
        ctx.save_for_backward(query, key, value, weights)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights = ctx.saved_tensors
        of_query, of_key, of_value = (
            torch.empty_like(one.transpose(1, 2), memory_format=torch.contiguous_format) for one in (query, key, value)
        )
        gradients = {"query_gradient": of_query, "key_gradient": of_key, "value_gradient": of_value}
        job = _AttentionJob(**_what_looks(query, key, value), **gradients, weights=weights, out=gradient.contiguous())
        job.run("attention_backward", query.dtype)
        return *(one.transpose(1, 2) for one in gradients.values()), None, None


def attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H N K"],
    value: Float[Tensor, "B H N Kv"],
    mask: Bool[Tensor, "#B 1 #T N"] | None,
    causal: bool,
) -> Float[Tensor, "B T HKv"]:
    """Equation 1 (section 3.2) of each head, the heads side by side.

    `causal` lets each of the last T positions look at itself and before it.
    """
    rows = [one if one.stride(-1) == 1 else one.contiguous() for one in (query, key, value)]
    return _Attention.apply(*rows, mask if mask is None or mask.stride(-1) == 1 else mask.contiguous(), causal)


# ---- label-smoothed cross-entropy


class _CrossEntropyJob(_Job):
    _fields_ = _of(c_int64, "threads rows vocabulary") + _of(c_void_p, "logits gold log_sums loss nll") + _of(c_float, "smoothing factor")


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, gold: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        rows, vocabulary = len(gold), logits.size(1)
        log_sums = logits.new_empty(rows, 2, dtype=torch.float32)
        loss, nll = logits.new_empty(2, rows, dtype=torch.float64)
        job = _CrossEntropyJob(
            rows=rows, vocabulary=vocabulary, logits=logits, gold=gold, log_sums=log_sums, loss=loss, nll=nll, smoothing=smoothing
        )
        job.run("cross_entropy", logits.dtype)
        ctx.save_for_backward(logits.detach(), gold, log_sums)
        ctx.smoothing = smoothing
        nll = nll.sum()
        ctx.mark_non_differentiable(nll)
        return loss.sum(), nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        logits, gold, log_sums = ctx.saved_tensors
        job = _CrossEntropyJob(
            rows=len(gold),
            vocabulary=logits.size(1),
            logits=logits,
            gold=gold,
            log_sums=log_sums,
            smoothing=ctx.smoothing,
            factor=loss_gradient.item(),
        )
        job.run("cross_entropy_backward", logits.dtype)
        logits[len(gold) :] = 0.0
        return logits, None, None


def cross_entropy(logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"], smoothing: float) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Smoothed loss and negative log-likelihood (section 5.4), in nats, summed over the first N rows.

    The backward pass puts the gradient in the place of the logits.
    """
    return _CrossEntropy.apply(logits.contiguous(), gold.contiguous(), smoothing)
