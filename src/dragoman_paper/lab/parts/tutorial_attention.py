"""Multi-head attention as tutorials write it: a map for each of query, key and value, heads of equal width,
and a mask that is filled with −1e9. Shapes: B sentences, T queries, N keys, D = d_model.
"""

import math

from torch import Tensor, nn


class TutorialAttention(nn.Module):
    """Queries, keys and values from three inputs; `mask` [B, 1, T or 1, N] is True where a key is allowed.

    Raises `ValueError` if the heads do not divide d_model.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} does not divide into {heads} heads.")
        self.heads, self.head_dim = heads, d_model // heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        """[B, T, D] → [B, heads, T, head_dim]."""
        return x.reshape(x.size(0), x.size(1), self.heads, self.head_dim).permute(0, 2, 1, 3)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.w_q(query)), self.split(self.w_k(key)), self.split(self.w_v(value))
        scores = q.matmul(k.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        heads = scores.softmax(dim=-1).matmul(v)
        joined = heads.permute(0, 2, 1, 3).reshape(query.size(0), query.size(1), -1)
        return self.w_o(joined)
