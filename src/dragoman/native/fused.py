"""Replacements for a model's modules in training; on a CPU, with the kernels of training_kernels.py.

Each class extends its oracle.

`fuse` changes the class of modules in place: parameters, their names and hooks stay as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.transformer import FeedForward, Residual, Transformer
from dragoman.native import kernel_library
from dragoman.native import training_kernels as kernels
from dragoman.native.chunked_cross_entropy import ChunkedCrossEntropy
from dragoman.native.dropout import CounterDropout
from dragoman.native.short_attention import ShortAttention
from dragoman.system.device import is_cpu, is_cuda


class FusedDropout(CounterDropout):
    """Oracle: `CounterDropout`, with the same masks."""

    def forward(self, input: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:  # noqa: A002  PyTorch's name
        if not kernels.supports(input):
            return super().forward(input)
        mask = self.draw()
        return input if mask is None else kernels.dropout(input, mask)


class FusedResidual(Residual):
    """Oracle: `Residual`."""

    dropout: FusedDropout

    def after(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        if not self.training or self.pre or not kernels.supports(y):
            return super().after(x, y)
        return kernels.residual(x, y, self.dropout.draw(), self.norm)


class FusedFeedForward(FeedForward):
    """Oracle: `FeedForward`."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        if not self.training or self.activation is not F.relu or not kernels.supports_linear(x):
            return super().forward(x)
        return kernels.feed_forward(x, self.inner, self.outer)


class FusedAttention(ShortAttention):
    """Oracle: `MultiHeadAttention`."""

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        short = self.is_short(query, memory)
        if (
            not self.training
            or self.dropout
            or self.attention_weights_hook is not None
            or not short
            or not kernels.supports(query)
        ):
            return super().attend(query, memory, mask, causal)
        return self.output(kernels.attention(query, *memory, mask, causal))


class FusedTransformer(Transformer):
    """Oracle: `Transformer`; the logits in blocks of columns that oneDNN multiplies fast."""

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        if not self.training or not kernels.supports_linear(features):
            return super().logits(features)
        rows = features.reshape(-1, features.size(-1))
        logits = kernels.linear(rows, self.output.weight, self.output_bias)
        return logits.view(*features.shape[:-1], len(self.output.weight))


class FusedCrossEntropy(ChunkedCrossEntropy):
    """Oracle: `LabelSmoothedCrossEntropy`."""

    def forward(
        self, logits: Float[Tensor, "M V"], gold: Int[Tensor, "N"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        if not kernels.supports(logits):
            return super().forward(logits, gold)
        return kernels.cross_entropy(logits, gold, self.smoothing)


AMPERE = (8, 0)  # the oldest compute capability whose tensor cores multiply bfloat16
GPU_FUSED = "dragoman.native.gpu_fused"

Replacements = dict[type[nn.Module], type[nn.Module]]
ANYWHERE: Replacements = {LabelSmoothedCrossEntropy: ChunkedCrossEntropy}
ON_A_CPU: Replacements = ANYWHERE | {nn.Dropout: CounterDropout, MultiHeadAttention: ShortAttention}
COMPILED: Replacements = {
    LabelSmoothedCrossEntropy: FusedCrossEntropy,
    nn.Dropout: FusedDropout,
    Residual: FusedResidual,
    FeedForward: FusedFeedForward,
    MultiHeadAttention: FusedAttention,
    Transformer: FusedTransformer,
}
ORACLES: Replacements = {fused: oracle for oracle, fused in COMPILED.items()} | {FusedDropout: CounterDropout}


def fuse(root: nn.Module) -> bool:
    """Replace the modules of an objective by the fastest ones for its device.

    False where kernels of this package are not among them.
    """
    device = device_of(root)
    if not is_cpu(device):
        on_a_gpu = gpu_replacements(device)
        replace(root, on_a_gpu or ANYWHERE)
        return on_a_gpu is not None
    compiled = kernels.start_compiling_kernels() and kernel_library.load_kernels() is not None
    replace(root, COMPILED if compiled else ON_A_CPU)
    return compiled


def device_of(root: nn.Module) -> torch.device:
    """The device of the weights."""
    return next((weight.device for weight in root.parameters()), torch.device("cpu"))


def gpu_replacements(device: torch.device) -> Replacements | None:
    """The replacements of gpu_fused.py; None where Triton is missing or does not compile for the device.

    Triton uses the current device alone.
    """
    if not is_cuda(device) or torch.version.hip or torch.cuda.get_device_capability(device) < AMPERE:
        return None
    if device.index not in (None, torch.cuda.current_device()):
        return None
    try:
        from dragoman.native.gpu_fused import ON_A_GPU, compiles
    except ImportError:  # there is no Triton
        return None
    return ON_A_GPU if compiles(device) else None


def replace(root: nn.Module, replacements: Replacements) -> None:
    """Change the class of every module that has a replacement."""
    for module in root.modules():
        module.__class__ = replacements.get(type(module), type(module))


def has_gpu_kernels(model: nn.Module) -> bool:
    """Whether `fuse` has given a Transformer the kernels for a GPU."""
    return type(model).__module__ == GPU_FUSED


@contextmanager
def unfused(root: nn.Module) -> Iterator[None]:
    """Put the oracles back for a while, with the same dropout masks: every module calls its submodules."""
    fused = [(module, type(module)) for module in root.modules()]
    if any(kind.__module__ == GPU_FUSED for _, kind in fused):
        from dragoman.native.gpu_fused import ON_A_GPU

        # Dropout stays as it is, with its masks.
        replace(root, {kind: oracle for oracle, kind in ON_A_GPU.items() if oracle is not nn.Dropout})
    replace(root, ORACLES)
    try:
        yield
    finally:
        for module, kind in fused:
            module.__class__ = kind
