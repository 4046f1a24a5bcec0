"""Recording queries, keys and values as the modules gave them in the calls that translated.

Shapes: S source and T target tokens, L layers, H heads, Q queries, N keys, K = d_k, Kv = d_v, W hypotheses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import get_ident

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman.inspection.record.projected import Projected, Projections
from dragoman.inspection.record.recording import attentions, exact, input_appender
from dragoman.model.attention import KeysValues
from dragoman.model.replaced_attend import replaced_attend
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
    """[1 H N K] and [1 H N Kv], parts of the decoder's cache."""


@contextmanager
def record_projections(model: Transformer) -> Iterator[dict[str, Calls]]:
    """By the names of the attentions, what they are given by this thread while the context is open.

    Encoder-decoder attention projects without a module that could have a hook, so `attend` is watched.
    """
    recorded: dict[str, Calls] = {}
    with ExitStack() as stack:
        for name, module in attentions(model).items():
            calls = recorded.setdefault(name, Calls())
            stack.enter_context(replaced_attend(module, watched(module.attend, calls)))
            hook = input_appender(calls.outputs)
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
            calls.memory.append(memory)
        return attend(query, memory, mask, causal)

    return attend_watched


def along_translation(recorded: Mapping[str, Calls], rows: Sequence[int]) -> Projections:
    """The projections of a translation, whose prefix is query `rows[t]` of call t."""
    by_kind: dict[str, list[Calls]] = {"encoder": [], "decoder": [], "cross": []}
    for name, calls in recorded.items():
        by_kind["cross" if name.endswith(".cross_attention") else name.split(".")[0]].append(calls)
    # Of the W keys at each position, where the prefix's own is [t + 1, W].
    ancestry = [
        mask[:, 0].flatten(0, 1)[row].unflatten(0, (step + 1, -1)).cpu()
        for step, (mask, row) in enumerate(zip(by_kind["decoder"][0].masks, rows, strict=False))
    ]
    causal = np.zeros((len(rows), len(rows)), bool)
    for step, mask in enumerate(ancestry):
        causal[step, : step + 1] = mask.any(1).numpy()
    # A hypothesis that two groups found has two equal keys.
    ancestors = torch.arange(len(rows)) * ancestry[-1].size(1) + ancestry[-1].byte().argmax(1)
    readable = by_kind["encoder"][0].masks[0][0, 0].cpu().numpy()
    read = by_kind["cross"][0].masks[0][0, 0].cpu().numpy()
    query_rows, all_rows = [slice(row, row + 1) for row in rows], slice(None)
    return Projections(
        projected(by_kind["encoder"], [all_rows], all_rows, readable),
        projected(by_kind["decoder"], query_rows, ancestors, causal),
        projected(by_kind["cross"], query_rows, all_rows, read),
    )


def projected(
    layers: Sequence[Calls],
    rows: Sequence[slice],
    keys: slice | Tensor,
    allowed: npt.NDArray[np.bool_],
) -> Projected:
    """Of each layer, the queries `rows[t]` of call t, these keys and values of the last call."""
    queries, outputs, all_keys, values = [], [], [], []
    for calls in layers:
        pairs = list(zip(calls.queries, calls.outputs, rows, strict=False))
        heads = calls.queries[0].size(1)
        queries.append(torch.cat([query.transpose(1, 2).flatten(0, 1)[row] for query, _, row in pairs]))
        side_by_side = torch.cat([output.flatten(0, 1)[row] for _, output, row in pairs])
        outputs.append(side_by_side.unflatten(1, (heads, -1)))
        memory = calls.memory[len(pairs) - 1]
        sample = rows[-1].start if memory.keys.size(0) > 1 else 0  # each sample has keys of its own
        all_keys.append(memory.keys[sample][:, keys])
        values.append(memory.values[sample][:, keys])
    return Projected(
        exact(torch.stack(queries).transpose(1, 2)),
        exact(torch.stack(all_keys)),
        exact(torch.stack(values)),
        allowed,
        exact(torch.stack(outputs).transpose(1, 2)),
    )
