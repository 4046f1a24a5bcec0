"""Replacement for `MultiHeadAttention` on a CPU, where PyTorch's fused kernel is slow for short texts.

Oracle: `attention`.

Shapes as in model/attention.py.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from dragoman.model.attention import KeysValues, MultiHeadAttention, causal_mask

MAX_SCORES = 256**2  # of a head: above, PyTorch's fused kernel is faster (experiments/LOG.md)


class ShortAttention(MultiHeadAttention):
    """Multi-head attention with equation 1 as two products and a softmax, in few passes over the scores."""

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        if self.attention_weights_hook is not None or not self.is_short(query, memory):
            return super().attend(query, memory, mask, causal)
        if causal and query.size(2) > 1:
            mask = causal_mask(query.size(2), memory.keys.size(2), query.device)
        heads = short_attention(query, *memory, mask, self.dropout if self.training else 0.0)
        return self.output(heads.transpose(1, 2).flatten(2))

    @staticmethod
    def is_short(query: Float[Tensor, "B H T K"], memory: KeysValues) -> bool:
        """Whether equation 1 as products is faster than PyTorch's fused kernel."""
        return query.size(2) * memory.keys.size(2) <= MAX_SCORES


def short_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H N K"],
    value: Float[Tensor, "B H N Kv"],
    mask: Bool[Tensor, "#B #H #T N"] | None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T Kv"]:
    """Equation 1 without its weights. A query with no allowed key gets zeros."""
    scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, -1e30).to(scores)
    weights = scores.softmax(-1)
    heads = (F.dropout(weights, dropout) if dropout else weights) @ value
    if mask is not None and not (allowed := mask.any(-1, keepdim=True)).all():
        heads = heads.masked_fill(~allowed, 0.0)
    return heads
