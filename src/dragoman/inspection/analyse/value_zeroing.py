"""Value zeroing: how much an attention mixes each token into the others (Mohebbi et al. 2023).

The score of a query and a key is the cosine distance between the layer's output at the query and what this
output is if the value vectors of the key are zero in all heads of one attention of this layer, divided by the
sum of the query's scores. All other layers compute what they always do.

Shapes: S source and T target tokens, L encoder and N decoder layers, Q queries, K keys, P zeroed keys.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.inspection.analyse.attributed import shifted
from dragoman.inspection.analyse.interventions import share_weights
from dragoman.inspection.record.inspected import is_blank, one_transformer
from dragoman.inspection.record.kinds import KINDS, Kind
from dragoman.inspection.record.record import Array
from dragoman.inspection.record.recording import as_array
from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.replaced_attend import replaced_attend
from dragoman.model.transformer import Transformer
from dragoman.system.errors import DragomanError
from dragoman.system.futures import interruption
from dragoman.translation.analysis import forced_batches
from dragoman.translation.translator import Translator

ROWS = 16  # keys whose values are zeroed in one call


@dataclass(frozen=True)
class ValueZeroing:
    """The scores. Those of a query sum to 1, or are all 0 if no key changes the output."""

    encoder: Array
    """Encoder self-attention [L S S]."""
    decoder: Array
    """Decoder self-attention [N T T]. Row t is the query that predicts target token t; its keys are START
    and the t tokens before it. Later columns are 0."""
    cross: Array
    """Encoder-decoder attention [N T S]."""

    def of(self, kind: Kind) -> Array:
        """The scores of a kind."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]


def value_zeroing(translator: Translator, sentence: str, translation: str | Sequence[str]) -> ValueZeroing:
    """The scores for a translation, a text or its tokens, by forced decoding.

    Raises `DragomanError` for a blank sentence, as `Translator.score`, and for a model that is not one
    Transformer.
    """
    if is_blank(translator, sentence):
        raise DragomanError("The sentence is blank: it has no tokens to mix. Give one with words.")
    model = share_weights(one_transformer(translator), {})  # other threads may use the original
    ((_, source, target),) = forced_batches(translator, [(sentence, translation)], 1)
    return ValueZeroing(*(as_array(scores(model, kind, source, target)) for kind in KINDS))


@torch.no_grad()
def scores(
    model: Transformer, kind: Kind, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> Float[Tensor, "L Q K"]:
    """The scores of all layers for a kind of attention.

    In each call, the first row of the batch is the model as it is, and each further row has zeros for one
    key. Each layer passes the output of the first row on, so only its own zeros change its output.

    Raises `CancelledError` after an `interruption`.
    """
    layers = model.encoder if kind == "encoder" else model.decoder
    parts = []
    for keys in torch.arange(target.size(1) if kind == "decoder" else source.size(1)).split(ROWS):
        if interruption.get().is_set():
            raise CancelledError
        outputs: list[Tensor] = []  # of each layer [1 + P, Q, D]
        sources, targets = (ids.expand(1 + len(keys), -1) for ids in (source, shifted(model, target)))
        with ExitStack() as stack:
            for layer in layers:
                attention = layer.cross_attention if kind == "cross" else layer.self_attention
                attend = without_values(cast(MultiHeadAttention, attention).attend, keys)
                stack.enter_context(replaced_attend(cast(nn.Module, attention), attend))
                stack.callback(layer.register_forward_hook(first_row_goes_on(outputs)).remove)
            state = model.encode(sources)
            if kind != "encoder":
                model.decode(targets, state)
        parts.append(torch.stack([distances(output) for output in outputs]))
    changes = torch.cat(parts, 1).transpose(1, 2)
    if kind == "decoder":
        changes = changes.tril()
    total = changes.sum(-1, keepdim=True)
    return changes / torch.where(total > 0, total, 1)


def without_values(attend: Callable[..., Tensor], keys: Int[Tensor, "P"]) -> Callable[..., Tensor]:
    """`MultiHeadAttention.attend` for 1 + P rows, where row 1 + p has zeros for the values of `keys[p]`."""

    def attend_without(
        query: Tensor, memory: KeysValues, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        values = memory.values.clone()  # [1 + P, H, K, d_v]
        values[torch.arange(1, 1 + len(keys)), :, keys] = 0
        return attend(query, KeysValues(memory.keys, values), mask, causal)

    return attend_without


def first_row_goes_on(outputs: list[Tensor]) -> Callable[[nn.Module, object, Tensor], Tensor]:
    """A hook that keeps a layer's output, and passes that of the first row on for all rows."""

    def hook(module: nn.Module, inputs: object, output: Tensor) -> Tensor:  # noqa: ARG001
        outputs.append(output)
        return output[:1].expand_as(output)

    return hook


def distances(output: Float[Tensor, "P1 Q D"]) -> Float[Tensor, "P Q"]:
    """Cosine distances of each row but the first from the first one.

    In float64, because 1 minus a cosine near 1 loses digits.
    """
    exact = output.double()
    return (1 - F.cosine_similarity(exact[1:], exact[:1], dim=-1)).clamp_min(0)
