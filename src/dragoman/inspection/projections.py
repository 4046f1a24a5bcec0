"""Recording queries, keys and values as the modules gave them in the calls that translated.

Shapes: S source and T target tokens, L layers, H heads, Q queries, N keys, K = d_k, Kv = d_v, W hypotheses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.inspection.projected import Numbers, Projected, Projections
from dragoman.inspection.recording import attentions
from dragoman.model.attention import KeysValues
from dragoman.model.transformer import Transformer


@dataclass
class Calls:
    """What an attention was given and gave, in the order of its calls."""

    queries: list[Tensor] = field(default_factory=list)
    """[1 H Q K]."""
    masks: list[Tensor] = field(default_factory=list)
    """[1 1 #Q N]."""
    outputs: list[Tensor] = field(default_factory=list)
    """What W^O was given [1 Q H·Kv]."""
    memory: list[KeysValues] = field(default_factory=list)
    """Of the last call alone: a decoder's cache holds those of earlier calls, too."""


@contextmanager
def record_projections(model: Transformer) -> Iterator[dict[str, Calls]]:
    """By the names of the attentions, what they are given by this thread while the context is open.

    Encoder-decoder attention projects without a module that could have a hook, so `attend` is watched.
    """
    recorded: dict[str, Calls] = {}
    with ExitStack() as stack:
        for name, module in attentions(model).items():
            calls = recorded.setdefault(name, Calls())
            vars(module)["attend"] = watched(module.attend, calls)
            stack.callback(vars(module).pop, "attend")
            hook = partial(record_input, calls.outputs, get_ident())
            stack.callback(module.output.register_forward_pre_hook(hook).remove)
        yield recorded


def watched(attend: Callable[..., Tensor], calls: Calls) -> Callable[..., Tensor]:
    """`MultiHeadAttention.attend` of a module, which also records what it is given."""
    thread = get_ident()

    def attend_watched(
        query: Tensor, memory: KeysValues, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        if get_ident() == thread:
            assert mask is not None  # only training has none
            calls.queries.append(query.detach())
            calls.masks.append(mask)
            calls.memory[:] = [memory]
        return attend(query, memory, mask, causal)

    return attend_watched


def record_input(inputs: list[Tensor], thread: int, module: nn.Module, given: tuple[Tensor, ...]) -> None:  # noqa: ARG001
    """Append what a module is given by a thread."""
    if get_ident() == thread:
        inputs.append(given[0].detach())


def along_translation(
    recorded: Mapping[str, Calls], rows: Sequence[int], beams: int, tokens: int
) -> Projections:
    """The projections for a translation of so many tokens, whose prefix has place `rows[t]` at step t."""
    named: dict[str, list[Calls]] = {"encoder": [], "decoder": [], "cross": []}
    for name, calls in recorded.items():
        kind = "cross" if name.endswith(".cross_attention") else name.split(".")[0]
        named[kind].append(calls)
    steps = list(enumerate(rows[:tokens]))

    def stacked(tensors: Sequence[Tensor]) -> Numbers:
        return exact(torch.stack(list(tensors)))

    def memory(kind: str, places: slice | Tensor = slice(None)) -> tuple[Numbers, Numbers]:
        keys, values = zip(*(calls.memory[0] for calls in named[kind]), strict=True)
        return stacked([each[0][:, places] for each in keys]), stacked(
            [each[0][:, places] for each in values]
        )

    def of_prefixes(kind: str) -> tuple[Numbers, Numbers]:
        return (
            stacked([torch.stack([calls.queries[t][0, :, w] for t, w in steps], 1) for calls in named[kind]]),
            stacked([torch.stack([calls.outputs[t][0, w] for t, w in steps]) for calls in named[kind]]),
        )

    encoder = named["encoder"]
    queries = stacked([calls.queries[0][0] for calls in encoder])
    outputs = stacked([calls.outputs[0][0] for calls in encoder])
    masks = named["decoder"][0].masks
    ancestry = [masks[t][0, 0, w].cpu().unflatten(0, (-1, beams)) for t, w in steps]  # [t + 1, W] each
    causal = np.zeros((tokens, tokens), bool)
    for t, each in enumerate(ancestry):
        causal[t, : t + 1] = each.any(1).numpy()
    # Where in the cache the last prefix's keys are. A hypothesis that two groups found has two equal ones.
    ancestors = torch.arange(tokens) * beams + ancestry[-1].byte().argmax(1)
    source = encoder[0].masks[0][0, 0].cpu().numpy()
    heads = queries.shape[1]
    decoder, cross = of_prefixes("decoder"), of_prefixes("cross")
    return Projections(
        Projected(queries, *memory("encoder"), source, by_head(outputs, heads)),
        Projected(decoder[0], *memory("decoder", ancestors), causal, by_head(decoder[1], heads)),
        Projected(cross[0], *memory("cross"), source, by_head(cross[1], heads)),
    )


def by_head(outputs: Numbers, heads: int) -> Numbers:
    """[L Q H·Kv] as [L H Q Kv]."""
    return outputs.reshape(*outputs.shape[:2], heads, -1).swapaxes(1, 2)


def exact(tensor: Tensor) -> Numbers:
    """A tensor without loss: float64 as it is, all shorter ones as float32."""
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).detach().cpu().numpy()
