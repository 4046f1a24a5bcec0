"""Compiles the Triton kernels for GPUs of a compute capability, here, where there may be none.

`python -m tests.compiled_gpu_kernels 90 [KERNEL…]` prints the name of each kernel and the shared memory that
it needs.
"""

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dragoman.native import triton_kernels as kernels

MASK = {"key": "*i64", "threshold": "i32", "scale": "fp32"}
STRIDES = {f"{part}_{of}": "i32" for part in ("query", "key", "value") for of in "bht"}
ATTENTION = {
    **{"query": "*bf16", "key": "*bf16", "value": "*bf16", "mask": "*i1", "out": "*bf16"},
    **STRIDES,
    **{"mask_b": "i32", "mask_t": "i32", "heads": "i32", "queries": "i32", "keys": "i32", "scale": "fp32"},
}
GRADIENTS = ("gradient", "query_gradient", "key_gradient", "value_gradient")
ATTENTION_BACKWARD = {name: kind for name, kind in ATTENTION.items() if name != "out"}
ROWS = {"x": "*bf16", "y": "*bf16", "out": "*bf16", "normalised_rows": "*bf16", "inverse_std": "*fp32"}
LOSS = {"logits": "*bf16", "row_stride": "i32", "gold": "*i64", "log_sums": "*fp32", "smoothing": "fp32"}
SIGNATURES = {
    "dropout": {"x": "*bf16", "out": "*bf16", **MASK, "count": "i32"},
    "residual_forward": {**ROWS, "gain": "*fp32", "bias": "*fp32", "epsilon": "fp32", **MASK, "width": "i32"},
    "residual_backward": {
        **dict.fromkeys(("gradient", "normalised_rows", "x_gradient", "y_gradient"), "*bf16"),
        **dict.fromkeys(("inverse_std", "gain", "sums"), "*fp32"),
        **MASK,
        **{"rows": "i32", "width": "i32"},
    },
    "column_sums": {
        **{"hidden": "*bf16", "gradient": "*bf16", "sums": "*fp32"},
        **{"rows": "i32", "width": "i32", "part": "i32"},
    },
    "attention_forward": ATTENTION,
    "attention_backward": ATTENTION_BACKWARD | dict.fromkeys(GRADIENTS, "*bf16"),
    "cross_entropy_forward": {**LOSS, "loss": "*fp32", "nll": "*fp32", "vocabulary": "i32", "padding": "i32"},
    "cross_entropy_backward": {
        **LOSS,
        **{"loss_gradient": "*fp64", "rows": "i32", "vocabulary": "i32", "padding": "i32"},
    },
}


RESIDUAL = {"MASKED": True, "GROUPED": True, "WIDTH": 512, "num_warps": 1}
CONSTANTS = {
    "dropout": {"BLOCK": 1024},
    "residual_forward": RESIDUAL,
    "residual_backward": RESIDUAL,
    "column_sums": {"RELU": True, "ROWS": 128, "COLUMNS": 64},
    "cross_entropy_forward": {"BLOCK": 512, "num_warps": 2},
    "cross_entropy_backward": {"BLOCK": 1024},
}
"""As in native/gpu_kernels.py, for a model as wide as `base`."""


def constants(name: str, length: int, width: int) -> dict[str, int]:
    """Of a kernel, for a batch of this length and heads of this width."""
    if name in CONSTANTS:
        return {"num_warps": 4} | CONSTANTS[name]
    sizes = {"T": length, "N": length, "K": width, "KV": width}
    return sizes | {"CAUSAL": True, "MASKED": True, "num_warps": length // 16}


def shared_memory(name: str, capability: int, length: int, width: int) -> int:
    """Compile a kernel; the bytes of shared memory that it needs."""
    kernel, types = getattr(kernels, name), SIGNATURES[name]
    chosen = constants(name, length, width)
    warps = chosen.pop("num_warps")
    signature = {argument: types.get(argument, "constexpr") for argument in kernel.arg_names}
    source = ASTSource(
        kernel, signature, {(kernel.arg_names.index(key),): value for key, value in chosen.items()}
    )
    target = GPUTarget("cuda", capability, 32)
    return triton.compile(source, target=target, options={"num_warps": warps}).metadata.shared


def main() -> None:
    """Compile for the capability that the first argument is: all, or a form of those named."""
    for name in sys.argv[2:] or SIGNATURES:
        both = "attention" in name and not sys.argv[2:]
        for length, width in ((128, 64), (64, 128)) if both else ((128, 64),):
            print(name, length, width, shared_memory(name, int(sys.argv[1]), length, width))


if __name__ == "__main__":
    main()
