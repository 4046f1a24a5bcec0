"""What stands between the matrix products of a training step, on a CPU, in C++ (kernels.cpp): the same equations in fewer passes.

Each function here has its equation, in PyTorch, where it is called. Shapes as in attention.py, transformer.py and loss.py.
"""

import platform
import sys
from ctypes import Structure, byref, c_float, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.native.build import Program, begin, library

KERNELS = Program(
    "What stands between matrix products in training",
    "PyTorch does it, slower.",
    (Path(__file__).with_suffix(".cpp"),),
    ("-fopenmp", *(["-mprefer-vector-width=512"] if platform.machine() == "x86_64" else [])),
)
PRECISIONS = (torch.float32, torch.bfloat16)


class Fusible(nn.Module):
    """A part of a model that has kernels for its training."""

    fused = False


def compile_kernels() -> bool:
    """Begin to compile them, in a thread; False where that cannot be.

    Only Linux has compilers with the very OpenMP that PyTorch computes with.
    """
    return sys.platform == "linux" and begin(KERNELS) is not None


def fuse(model: nn.Module) -> bool:
    """Have a model train by the kernels from now on; False where it lies elsewhere than on a CPU, or they cannot be compiled."""
    if any(weight.device.type != "cpu" for weight in model.parameters()) or not compile_kernels() or library(KERNELS) is None:
        return False
    for part in model.modules():
        if isinstance(part, Fusible):
            part.fused = True
    return True


class _Job(Structure):
    """A struct of kernels.cpp: numbers, and where tensors lie, which have to live until it is done."""

    def __init__(self, **fields: Any) -> None:
        given = {name: value.data_ptr() if isinstance(value, Tensor) else value for name, value in fields.items()}
        super().__init__(torch.get_num_threads(), **given)

    def run(self, kernel: str, precision: torch.dtype) -> None:
        """Call the kernel for numbers of this precision."""
        lib = library(KERNELS)
        assert lib is not None
        lib[f"dragoman_{kernel}"](byref(self), precision == torch.bfloat16)


def _of(kind: type, names: str) -> list[tuple[str, type]]:
    return [(name, kind) for name in names.split()]


# ---- LayerNorm(x + Dropout(y)), without the norm, and dropout alone


class Drops(NamedTuple):
    """Which numbers are dropped: those whose random bits, drawn from a key on, are below `least`; the others are multiplied."""

    key: int
    least: int
    survivors: float


class _ResidualJob(_Job):
    _fields_ = (
        _of(c_int64, "threads rows width")
        + _of(c_void_p, "x y total out scales gain bias gain_gradient bias_gradient")
        + _of(c_uint64, "key")
        + _of(c_int32, "drops least")
        + _of(c_float, "survivors epsilon")
    )


def _residual_job(x: Tensor, y: Tensor, drops: Drops | None, **others: Any) -> _ResidualJob:
    how = {} if drops is None else {"drops": True, **drops._asdict()}
    return _ResidualJob(rows=x.numel() // x.size(-1), width=x.size(-1), x=x, y=y, **how, **others)


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, gain: Tensor | None, bias: Tensor | None, epsilon: float, drops: Drops | None) -> Tensor:
        total, scales = torch.empty_like(x), x.new_empty(x.shape[:-1])
        out = total if gain is None else torch.empty_like(x)
        job = _residual_job(x, y, drops, total=total, out=out, scales=scales, gain=gain, bias=bias, epsilon=epsilon)
        job.run("residual", y.dtype)
        ctx.save_for_backward(None if gain is None else total, scales, gain)
        ctx.precision, ctx.drops = y.dtype, drops
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        total, scales, gain = ctx.saved_tensors
        gradient = gradient.contiguous()
        x = gradient if gain is None else torch.empty_like(gradient)
        y = torch.empty_like(gradient, dtype=ctx.precision)
        sums = gradient.new_zeros(2, torch.get_num_threads(), gradient.size(-1))
        others = {"out": gradient, "total": total, "scales": scales, "gain": gain, "gain_gradient": sums[0], "bias_gradient": sums[1]}
        _residual_job(x, y, ctx.drops, **others).run("residual_backward", ctx.precision)
        return x, y, *((None, None) if gain is None else sums.sum(1)), None, None


def residual(
    x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"], drops: Drops | None, norm: nn.LayerNorm | None
) -> Float[Tensor, "B T D"]:
    """norm(x + dropout(y)) (sections 3.1 and 5.4), or without a norm the sum alone; y in float32 or bfloat16."""
    gain, bias, epsilon = (None, None, 0.0) if norm is None else (norm.weight, norm.bias, norm.eps)
    return _Residual.apply(x.contiguous(), y.contiguous(), gain, bias, epsilon, drops)


class _Dropout(torch.autograd.Function):
    """What the backward pass of a residual without a norm does to the gradient of y; it is its own backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, drops: Drops) -> Tensor:
        ctx.drops = drops
        out = torch.empty_like(x)
        _residual_job(x, out, drops).run("residual_backward", x.dtype)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _Dropout.forward(ctx, gradient.contiguous(), ctx.drops), None


def dropout(x: Float[Tensor, "*N D"], drops: Drops) -> Float[Tensor, "*N D"]:
    """The numbers that survive, multiplied, and zeros (section 5.4)."""
    return _Dropout.apply(x.contiguous(), drops)


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


def _attention_job(query: Tensor, key: Tensor, value: Tensor, **others: Any) -> _AttentionJob:
    sentences, heads, queries, key_width = query.shape
    return _AttentionJob(
        sentences=sentences, heads=heads, queries=queries, keys=key.size(2), key_width=key_width, value_width=value.size(3),
        query=query, key=key, value=value, of_query=query.stride()[:3], of_key=key.stride()[:3], of_value=value.stride()[:3],
        scale=key_width**-0.5, **others,
    )  # fmt: skip


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        sentences, heads, queries, _ = query.shape
        weights = query.new_empty(sentences, heads, queries, key.size(2) + -key.size(2) % 16, dtype=torch.float32)
        out = query.new_empty(sentences, queries, heads * value.size(3))
        strides = (0, 0) if mask is None else mask.expand(sentences, 1, queries, -1).stride()
        others = {"mask": mask, "mask_of_sentence": strides[0], "mask_of_query": strides[-2], "causal": causal}
        _attention_job(query, key, value, weights=weights, out=out, **others).run("attention", query.dtype)
        ctx.save_for_backward(query, key, value, weights)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights = ctx.saved_tensors
        gradients = [torch.empty_like(one.transpose(1, 2), memory_format=torch.contiguous_format) for one in (query, key, value)]
        names = ("query_gradient", "key_gradient", "value_gradient")
        job = _attention_job(query, key, value, weights=weights, out=gradient.contiguous(), **dict(zip(names, gradients, strict=True)))
        job.run("attention_backward", query.dtype)
        return *(one.transpose(1, 2) for one in gradients), None, None


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
        rows, vocabulary = logits.shape
        log_sums = logits.new_empty(rows, dtype=torch.float32)
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
        rows, vocabulary = logits.shape
        job = _CrossEntropyJob(
            rows=rows,
            vocabulary=vocabulary,
            logits=logits,
            gold=gold,
            log_sums=log_sums,
            smoothing=ctx.smoothing,
            factor=loss_gradient.item(),
        )
        job.run("cross_entropy_backward", logits.dtype)
        return logits, None, None


def cross_entropy(logits: Float[Tensor, "N V"], gold: Int[Tensor, "N"], smoothing: float) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Smoothed loss and negative log-likelihood (section 5.4), in nats, summed.

    The backward pass puts the gradient in the place of the logits.
    """
    return _CrossEntropy.apply(logits.contiguous(), gold.contiguous(), smoothing)
