"""Watching a model while it computes: hooks record what its modules give, and change nothing.

Shapes: Q queries, N keys, H heads, D = d_model; one sentence at a time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import get_ident

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from dragoman.inspection.record.projected import Numbers
from dragoman.inspection.record.record import Array
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.enriched import Enriched, EnrichedDecoderLayer, EnrichedEncoderLayer
from dragoman.model.transformer import DecoderLayer, EncoderLayer, FeedForward, Residual, Transformer
from dragoman.search.attention_weights import AttentionModule, record_attention


@dataclass
class Recording:
    """What the modules of a model gave, by name, in the order of their calls."""

    weights: dict[str, list[Tensor]] = field(default_factory=dict)
    """Of each attention, such as `decoder.0.cross_attention`: [1 H Q N]."""
    outputs: dict[str, list[Tensor]] = field(default_factory=dict)
    """Of each module that `watched` names: [1 Q D]; of `embedding` [Q 1 D] in the decoder."""


def attentions(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """The attentions by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)}


def watched(model: Transformer) -> dict[str, nn.Module]:
    """The modules whose outputs are recorded.

    They are the sums of embedding and position (`embedding`), the layers (`encoder.0`), and what the
    sub-layers add to the residual stream (`encoder.0.self_attention`, `encoder.0.feed_forward`).
    """
    modules: dict[str, nn.Module] = {"embedding": model.dropout}
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            modules[name] = module.output
        elif isinstance(module, EncoderLayer | DecoderLayer | FeedForward):
            modules[name] = module
    return modules


def watched_of_enriched(model: Enriched) -> dict[str, nn.Module]:
    """As `watched`; what a sub-layer adds (`encoder.0.token_mixer`) is the output of its dropout."""
    modules: dict[str, nn.Module] = {"embedding": model.dropout}
    for name, module in model.named_modules():
        if isinstance(module, EnrichedEncoderLayer | EnrichedDecoderLayer):
            modules[name] = module
        elif isinstance(module, Residual):
            modules[name.removesuffix("_residual")] = module.dropout
    return modules


def record(model: Transformer | Enriched) -> AbstractContextManager[Recording]:
    """Record what the model computes while the context is open; equation 1 is computed as written."""
    outputs_of = watched_of_enriched(model) if isinstance(model, Enriched) else watched(model)
    return record_modules(attentions(model), outputs_of)


@contextmanager
def record_modules(
    names: Mapping[str, AttentionModule], outputs_of: Mapping[str, nn.Module]
) -> Iterator[Recording]:
    """Record the weights of these attentions and the outputs of these modules while the context is open."""
    recording = Recording()
    with ExitStack() as stack:
        calls = stack.enter_context(record_attention(list(names.values())))
        for name, module in outputs_of.items():
            stack.callback(
                module.register_forward_hook(appender(recording.outputs.setdefault(name, []))).remove
            )
        try:
            yield recording
        finally:
            recording.weights = dict(zip(names, calls, strict=True))


@contextmanager
def record_hidden(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """What W_2 of each feed-forward sub-layer, such as `encoder.0.feed_forward`, is multiplied by while the
    context is open: its hidden units [1 Q F], after the activation function. Empty without such sub-layers.
    """
    recorded: dict[str, list[Tensor]] = {}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, FeedForward):
                hook = input_appender(recorded.setdefault(name, []))
                stack.callback(module.outer.register_forward_pre_hook(hook).remove)
        yield recorded


def input_appender(inputs: list[Tensor]) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    """A hook that appends what a module is given in this thread to a list."""
    thread = get_ident()

    def hook(module: nn.Module, args: tuple[Tensor, ...]) -> None:  # noqa: ARG001
        if get_ident() == thread:
            inputs.append(args[0].detach())

    return hook


def exact(tensor: Tensor) -> Numbers:
    """A tensor without loss: float64 as it is, all shorter ones as float32."""
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).detach().cpu().numpy()


def appender(outputs: list[Tensor]) -> Callable[[nn.Module, object, object], None]:
    """A hook that appends a module's output in this thread to a list: of several tensors the first one, of an
    LSTM or GRU its hidden states.
    """
    thread = get_ident()  # others may translate with the model meanwhile

    def hook(module: nn.Module, inputs: object, output: object) -> None:  # noqa: ARG001
        if get_ident() != thread:
            return
        first = output[0] if isinstance(output, tuple) else output
        first = first.data[None] if isinstance(first, PackedSequence) else first
        assert isinstance(first, Tensor)
        outputs.append(first.detach())

    return hook


def norms(rows: Sequence[Tensor]) -> Array:
    """Euclidean norms over the last axis."""
    return as_array(torch.stack([row.norm(dim=-1) for row in rows]))


def row_of(call: Float[Tensor, "B H W N"], row: int) -> Float[Tensor, "H N"]:
    """The weights of a query: W queries of one sentence, or one of each of B samples."""
    return call.transpose(1, 2).flatten(0, 1)[row]


def as_array(tensor: Tensor) -> Array:
    """A tensor as float32."""
    return tensor.detach().float().cpu().numpy()
