"""Guided alignment: a word alignment guides the attention of a head (Chen et al. 2016; Garg et al. 2019).

Shapes: B sentences, S source and T target tokens, K = d_k, N links between tokens.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.enriched import EnrichedDecoderLayer
from dragoman.model.interface import Model
from dragoman.model.replaced_attend import replaced_attend
from dragoman.model.transformer import DecoderLayer
from dragoman.system.device import is_cuda
from dragoman.text.batches import Batch
from dragoman.text.token_alignment import AlignedCorpus
from dragoman.training.objective import Objective

Attended = tuple[Tensor, KeysValues, Tensor]
"""Query [B H T K], memory and mask [B 1 1 S] of an encoder-decoder attention."""


class GuidedObjective(nn.Module):
    """An objective whose loss also has `weight` times the cross-entropy between alignment and attention.

    The attention is that of one head of the last decoder layer to the source. The links of a target token
    have equal shares, which sum to 1. A token without links adds nothing.
    """

    def __init__(self, objective: Objective, corpus: AlignedCorpus, head: int, weight: float) -> None:
        """`corpus` has the pairs of the batches; `head` counts from 1."""
        super().__init__()
        self.objective, self.corpus, self.head, self.weight = objective, corpus, head, weight

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """As `Objective.forward`; the loss has the cross-entropy of the alignment, too."""
        places, shares = batch_links(self.corpus, batch)
        attention, attended = last_cross_attention(self.objective.model), list[Attended]()
        with replaced_attend(attention, keeping(attention.attend, attended)):
            loss, nll = self.objective(batch)
        ((query, memory, mask),) = attended
        log_weights = log_attention(query[:, self.head - 1], memory.keys[:, self.head - 1], mask[:, 0])
        cross_entropy = -(shares * log_weights.flatten().index_select(0, places)).sum(dtype=torch.float64)
        return loss + self.weight * cross_entropy, nll


def last_cross_attention(model: Model) -> MultiHeadAttention:
    """The attention to the source of the last decoder layer, of a Transformer or enriched model."""
    kinds = DecoderLayer | EnrichedDecoderLayer
    return [module for module in model.modules() if isinstance(module, kinds)][-1].cross_attention


def keeping(attend: Callable[..., Tensor], attended: list[Attended]) -> Callable[..., Tensor]:
    """`MultiHeadAttention.attend` of a module, which also appends what it is given."""

    def attend_and_keep(query: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        attended.append((query, memory, mask))
        return attend(query, memory, mask)

    return attend_and_keep


def log_attention(
    query: Float[Tensor, "B T K"], key: Float[Tensor, "B S K"], mask: Bool[Tensor, "B 1 S"]
) -> Float[Tensor, "B T S"]:
    """The logarithms of the weights of equation 1, of one head, in float32.

    The fused kernels do not return weights.
    """
    scores = query.float() @ key.float().transpose(-2, -1) / math.sqrt(query.size(-1))
    # Not minus infinity: the gradient of a row without an allowed key would be NaN.
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).log_softmax(-1)


def batch_links(corpus: AlignedCorpus, batch: Batch) -> tuple[Int[Tensor, "N"], Float[Tensor, "N"]]:
    """The places of a batch's links in flattened weights [B T S], and their shares of their target tokens."""
    rows = [corpus.links(pair) for pair in batch.pairs]
    links = np.concatenate([np.zeros((0, 2), np.int64), *rows])
    sentence = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    token = sentence * batch.target_out.size(1) + links[:, 0]
    shares = 1 / np.bincount(token)[token]
    device = batch.source.device
    tensors = (
        torch.from_numpy(token * batch.source.size(1) + links[:, 1]),
        torch.from_numpy(shares.astype(np.float32)),
    )
    if is_cuda(device):  # without waiting for what it computes
        tensors = tensors[0].pin_memory(), tensors[1].pin_memory()
    return tensors[0].to(device, non_blocking=True), tensors[1].to(device, non_blocking=True)
