"""The compiled training_kernels.cpp: its structures and functions, as ctypes declares them."""

from ctypes import (
    CDLL,
    POINTER,
    Structure,
    c_bool,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from functools import cache

from dragoman.native.build import TRAINING_KERNELS, check_size, load_library
from dragoman.system.errors import DragomanError


class DropoutMaskFields(Structure):
    """DropoutMask of training_kernels.cpp."""

    _fields_ = [("key", c_uint64), ("threshold", c_int32), ("scale", c_float)]


class DropoutArguments(Structure):
    """As in training_kernels.cpp, which explains the fields."""

    _fields_ = [
        ("threads", c_int64),
        ("rows", c_int64),
        ("width", c_int64),
        ("x", c_void_p),
        ("out", c_void_p),
        ("mask", DropoutMaskFields),
    ]


class ResidualArguments(Structure):
    """As in training_kernels.cpp."""

    _fields_ = [
        ("threads", c_int64),
        ("rows", c_int64),
        ("width", c_int64),
        ("x", c_void_p),
        ("y", c_void_p),
        ("out", c_void_p),
        ("normal", c_void_p),
        ("scales", c_void_p),
        ("gain", c_void_p),
        ("bias", c_void_p),
        ("gain_gradient", c_void_p),
        ("bias_gradient", c_void_p),
        ("epsilon", c_float),
        ("has_mask", c_int32),
        ("mask", DropoutMaskFields),
    ]


class TransposeArguments(Structure):
    """As in training_kernels.cpp."""

    _fields_ = [
        ("threads", c_int64),
        ("rows", c_int64),
        ("columns", c_int64),
        ("stride", c_int64),
        ("x", c_void_p),
        ("out", c_void_p),
    ]


class FeedForwardArguments(Structure):
    """As in training_kernels.cpp."""

    _fields_ = [
        ("threads", c_int64),
        ("rows", c_int64),
        ("width", c_int64),
        ("hidden", c_void_p),
        ("gradient", c_void_p),
        ("bias_gradient", c_void_p),
    ]


class AttentionArguments(Structure):
    """As in training_kernels.cpp."""

    _fields_ = [
        ("threads", c_int64),
        ("sentences", c_int64),
        ("heads", c_int64),
        ("queries", c_int64),
        ("keys", c_int64),
        ("key_width", c_int64),
        ("value_width", c_int64),
        ("query", c_void_p),
        ("key", c_void_p),
        ("value", c_void_p),
        ("query_strides", c_int64 * 3),
        ("key_strides", c_int64 * 3),
        ("value_strides", c_int64 * 3),
        ("mask", c_void_p),
        ("mask_sentence_stride", c_int64),
        ("mask_query_stride", c_int64),
        ("weights", c_void_p),
        ("out", c_void_p),
        ("query_gradient", c_void_p),
        ("key_gradient", c_void_p),
        ("value_gradient", c_void_p),
        ("scale", c_float),
        ("causal", c_int32),
    ]


class CrossEntropyArguments(Structure):
    """As in training_kernels.cpp."""

    _fields_ = [
        ("threads", c_int64),
        ("rows", c_int64),
        ("vocabulary", c_int64),
        ("logits", c_void_p),
        ("gold", c_void_p),
        ("log_sums", c_void_p),
        ("loss", c_void_p),
        ("nll", c_void_p),
        ("smoothing", c_float),
        ("factor", c_float),
    ]


@cache
def load_kernels() -> CDLL | None:
    """The kernels; None if they do not compile. Raises `DragomanError` if structures differ in size."""
    lib = load_library(TRAINING_KERNELS)
    return None if lib is None else declare(lib)


def declare(lib: CDLL) -> CDLL:
    """Declare the functions of training_kernels.cpp. Raises `DragomanError` if structures differ in size."""
    check_size(lib.dragoman_sizeof_dropout_arguments, DropoutArguments)
    check_size(lib.dragoman_sizeof_residual_arguments, ResidualArguments)
    check_size(lib.dragoman_sizeof_transpose_arguments, TransposeArguments)
    check_size(lib.dragoman_sizeof_feed_forward_arguments, FeedForwardArguments)
    check_size(lib.dragoman_sizeof_attention_arguments, AttentionArguments)
    check_size(lib.dragoman_sizeof_cross_entropy_arguments, CrossEntropyArguments)
    lib.dragoman_dropout.argtypes = [POINTER(DropoutArguments), c_size_t, c_bool]
    lib.dragoman_residual_forward.argtypes = [POINTER(ResidualArguments), c_size_t, c_bool]
    lib.dragoman_residual_backward.argtypes = [POINTER(ResidualArguments), c_size_t, c_bool]
    lib.dragoman_transpose.argtypes = [POINTER(TransposeArguments), c_size_t]
    lib.dragoman_feed_forward_backward.argtypes = [POINTER(FeedForwardArguments), c_size_t, c_bool]
    lib.dragoman_attention_forward.argtypes = [POINTER(AttentionArguments), c_size_t, c_bool]
    lib.dragoman_attention_backward.argtypes = [POINTER(AttentionArguments), c_size_t, c_bool]
    lib.dragoman_cross_entropy_forward.argtypes = [POINTER(CrossEntropyArguments), c_size_t, c_bool]
    lib.dragoman_cross_entropy_backward.argtypes = [POINTER(CrossEntropyArguments), c_size_t, c_bool]
    return lib  # each returns a status, an int32: ctypes' default


def loaded_kernels() -> CDLL:
    """The kernels, which `fuse` has loaded before it replaced any module."""
    lib = load_kernels()
    assert lib is not None
    return lib


def check_status(status: int) -> None:
    """Raise `RuntimeError` for OUT_OF_MEMORY (1) and `DragomanError` for WRONG_SIZE (2); 0 is OK."""
    if status == 1:
        raise RuntimeError("The C++ kernels can't allocate memory")
    if status == 2:
        raise DragomanError(
            "training_kernels.cpp is of another version than kernel_library.py; install dragoman again."
        )
