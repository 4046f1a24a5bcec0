"""Attention (section 3.2). Shapes: B sentences, H heads, T queries, N keys, K = d_k, Kv = d_v, D = d_model."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model import kernels
from dragoman.model.kernels import Fusible
from dragoman.model.linear import Linear


def attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H N K"],
    value: Float[Tensor, "B H N Kv"],
    mask: Bool[Tensor, "#B #H #T N"] | None = None,
) -> tuple[Float[Tensor, "B H T Kv"], Float[Tensor, "B H T N"]]:
    """Equation 1 as written, with its weights: softmax(Q Kᵀ / √d_k) V.

    The mask is True where looking is allowed; a query that may look nowhere gets zeros. This is the oracle that all others are
    tested against, the place to read attention weights from, and what ONNX graphs are made of.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


def causal_mask(queries: int, keys: int, device: torch.device) -> Bool[Tensor, "1 1 T N"]:
    """Each of the last `queries` positions looks at itself and at what is before it (section 3.2.3)."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)[None, None]


def _equation_is_faster(query: Tensor, key: Tensor) -> bool:
    """On a CPU the fused kernel takes 1.5 times as long as the equation below some 256 tokens, and its backward up to 8 times."""
    return query.device.type == "cpu" and query.size(2) * key.size(2) <= 256**2


def _products(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H N K"],
    value: Float[Tensor, "B H N Kv"],
    mask: Bool[Tensor, "#B #H #T N"] | None,
    dropout: float,
) -> Float[Tensor, "B H T Kv"]:
    """Equation 1, for a CPU: the same in fewer passes over the scores, and without its weights."""
    scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, -1e30).to(scores)
    weights = scores.softmax(-1)
    heads = (F.dropout(weights, dropout) if dropout else weights) @ value
    if mask is not None and not (somewhere := mask.any(-1, keepdim=True)).all():
        heads = heads.masked_fill(~somewhere, 0.0)
    return heads


class KeysValues(NamedTuple):
    """What can be looked at: one key and one value a position and head."""

    keys: Float[Tensor, "B H N K"]
    values: Float[Tensor, "B H N Kv"]


class MultiHeadAttention(Fusible):
    """Concat(head_1 … head_h) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (section 3.2.2).

    Two calls make every use of it: one gives the keys and values of a memory (`remember`, or `project` for self-attention,
    where the queries come out of the same matrix product), the other looks at them (`look`).
    """

    def __init__(self, d_model: int, heads: int, d_k: int, d_v: int, bias: bool = False, dropout: float = 0.0) -> None:
        """W^Q, W^K and W^V of all heads are the rows of one matrix, in this order."""
        super().__init__()
        self.heads = heads
        self.widths = [heads * d_k, heads * d_k, heads * d_v]
        self.query_key_value = Linear(d_model, sum(self.widths), bias=bias)
        self.output = nn.Linear(heads * d_v, d_model, bias=bias)
        self.dropout = dropout
        self.watch: Callable[[Tensor], None] | None = None
        """Gets the weights of every look, where somebody wants to see them."""
        for block in self.query_key_value.weight.split(self.widths):
            nn.init.xavier_uniform_(block, gain=2**-0.5)  # as fairseq: post-norm learns much sooner so (experiments/LOG.md)
        nn.init.xavier_uniform_(self.output.weight)
        for linear in (self.query_key_value, self.output):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def _heads(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def project(self, x: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B H T K"], KeysValues]:
        """Queries, keys and values of self-attention, in one matrix product."""
        query, key, value = self.query_key_value(x).split(self.widths, -1)
        return self._heads(query), KeysValues(self._heads(key), self._heads(value))

    def queries(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        """Queries alone, for a memory that was projected before."""
        return self._heads(self.query_key_value.part(x, 0, self.widths[0]))

    def remember(self, memory: Float[Tensor, "B N D"]) -> KeysValues:
        """Keys and values of a memory, to be looked at any number of times."""
        key, value = self.query_key_value.part(memory, self.widths[0], None).split(self.widths[1:], -1)
        return KeysValues(self._heads(key), self._heads(value))

    def look(
        self,
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        """Equation 1, then W^O. `causal`, instead of a mask, lets each of the last T positions look at itself and before it."""
        dropout = self.dropout if self.training else 0.0
        queries, keys = query.size(2), memory.keys.size(2)
        if self.watch is not None:
            self.watch(attention(query, *memory, causal_mask(queries, keys, query.device) if causal else mask)[1])
        written_out = _equation_is_faster(query, memory.keys)
        if self.fused and self.training and written_out and not dropout and kernels.takes(query):
            return self.output(kernels.attention(query, *memory, mask, causal))
        if causal and queries > 1 and (written_out or queries != keys):
            mask = causal_mask(queries, keys, query.device)
        if written_out:
            heads = _products(query, *memory, mask, dropout)
        else:
            square = causal and queries == keys
            heads = F.scaled_dot_product_attention(query, *memory, attn_mask=mask, is_causal=square, dropout_p=dropout)
        return self.output(heads.transpose(1, 2).flatten(2))
