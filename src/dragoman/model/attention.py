"""Attention (section 3.2).

Shapes: B sentences, H heads, T queries, N keys, K = d_k, Kv = d_v, D = d_model, HK = H · d_k or H · d_v,
E outputs of a projection, *N any dimensions.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F


def attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H N K"],
    value: Float[Tensor, "B H N Kv"],
    mask: Bool[Tensor, "#B #H #T N"] | None = None,
) -> tuple[Float[Tensor, "B H T Kv"], Float[Tensor, "B H T N"]]:
    """Equation 1 (section 3.2.1) as written: Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V.

    Returns its value and its weights. The mask is True where attending is allowed. A query with no allowed
    key gets zeros. This is the oracle of every other implementation, the source of attention weights, and
    what exported ONNX graphs contain.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


def causal_mask(queries: int, keys: int, device: torch.device) -> Bool[Tensor, "1 1 T N"]:
    """The mask with which each query attends to its own position and to those before it (section 3.2.3).

    The queries are the last of the positions of the keys. True is where attending is allowed.
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)[None, None]


class KeysValues(NamedTuple):
    """A memory: one key and one value for each position and head."""

    keys: Float[Tensor, "B H N K"]
    values: Float[Tensor, "B H N Kv"]


class Projections(nn.Linear):
    """The matrices W^Q, W^K and W^V of all heads as the rows of one matrix, in this order."""

    def project_rows(self, x: Float[Tensor, "*N D"], start: int, stop: int | None) -> Float[Tensor, "*N E"]:
        """Project by the rows of the matrix from `start` up to, not including, `stop`; None is the end."""
        return F.linear(x, self.weight[start:stop], None if self.bias is None else self.bias[start:stop])


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1 … head_h) W^O (section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    Every use is two calls: one makes queries, keys and values (`project` for self-attention, `project_query`
    and `project_memory` for encoder-decoder attention), the other attends (`attend`).
    """

    def __init__(
        self, d_model: int, heads: int, d_k: int, d_v: int, bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads = heads
        self.widths = [heads * d_k, heads * d_k, heads * d_v]
        """How many rows of `query_key_value` are W^Q, W^K and W^V, of all heads together."""
        self.query_key_value = Projections(d_model, sum(self.widths), bias=bias)
        self.output = nn.Linear(heads * d_v, d_model, bias=bias)
        self.dropout = dropout
        self.attention_weights_hook: Callable[[Tensor], None] | None = None
        """If set, equation 1 is computed as written, without dropout, and this gets its weights [B H T N]."""
        for block in self.query_key_value.weight.split(self.widths):
            # fairseq's gain: post-norm converges sooner (experiments/LOG.md).
            nn.init.xavier_uniform_(block, gain=2**-0.5)
        nn.init.xavier_uniform_(self.output.weight)
        for linear in (self.query_key_value, self.output):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def _split_heads(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def project(self, x: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B H T K"], KeysValues]:
        """Queries, keys and values of self-attention."""
        query, key, value = self.query_key_value(x).split(self.widths, -1)
        return self._split_heads(query), KeysValues(self._split_heads(key), self._split_heads(value))

    def project_query(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        """Queries for a memory that has been projected."""
        return self._split_heads(self.query_key_value.project_rows(x, 0, self.widths[0]))

    def project_memory(self, encoder_output: Float[Tensor, "B N D"]) -> KeysValues:
        """Keys and values of the encoder's output, computed once for any number of queries."""
        projected = self.query_key_value.project_rows(encoder_output, self.widths[0], None)
        key, value = projected.split(self.widths[1:], -1)
        return KeysValues(self._split_heads(key), self._split_heads(value))

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        """Equation 1 for all heads, side by side, then W^O.

        `causal`, for self-attention without a mask, lets each position attend to itself and to every position
        before it.
        """
        if (hook := self.attention_weights_hook) is None:
            # PyTorch's fused kernel of equation 1, which gives no weights.
            dropout = self.dropout if self.training else 0.0
            heads = F.scaled_dot_product_attention(
                query, *memory, attn_mask=mask, dropout_p=dropout, is_causal=causal
            )
        else:
            allowed = causal_mask(query.size(2), memory.keys.size(2), query.device) if causal else mask
            heads, weights = attention(query, *memory, allowed)
            hook(weights)
        return self.output(heads.transpose(1, 2).flatten(2))
