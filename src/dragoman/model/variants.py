"""Variants of the Transformer's parts, which the paper compares with or rejects. Each replaces one module.

Shapes: B sentences, H heads, T queries, N keys, n tokens, K = d_k, D = d_model, R = B · W prefixes,
Q = W · T queries of a sentence.
"""

from dataclasses import dataclass, field, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import KeysValues, MultiHeadAttention, causal_mask
from dragoman.model.cache import TransformerState
from dragoman.model.interface import State
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START
from dragoman.model.transformer import DecoderLayer, EncoderLayer, Residual, Transformer, make_attention

# ---- the scores of attention (sections 3.2.1 and 3.5; Luong et al. 2015, Bahdanau et al. 2015)


class ScoredAttention(MultiHeadAttention):
    """Multi-head attention with other scores than Q Kᵀ / √d_k."""

    def scores(
        self, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H N K"]
    ) -> Float[Tensor, "B H T N"]:
        """The compatibility of each query with each key."""
        raise NotImplementedError

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        scores = self.scores(query, memory.keys)
        allowed = causal_mask(query.size(2), memory.keys.size(2), query.device) if causal else mask
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        weights = scores.softmax(-1)
        if allowed is not None:  # a query with no allowed key gets zeros, as in `attention`
            weights = weights.masked_fill(~allowed, 0.0)
        if (hook := self.attention_weights_hook) is not None:
            hook(weights)
        heads = F.dropout(weights, self.dropout, self.training) @ memory.values
        return self.output(heads.transpose(1, 2).flatten(2))


class DotProductAttention(ScoredAttention):
    """q · k without the factor 1 / √d_k: its variance grows with d_k (section 3.2.1, footnote 4)."""

    def scores(
        self, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H N K"]
    ) -> Float[Tensor, "B H T N"]:
        return query @ key.transpose(-2, -1)


class GeneralAttention(ScoredAttention):
    """qᵀ W k with a matrix W for each head (Luong et al. 2015, "general")."""

    def __init__(
        self, d_model: int, heads: int, d_k: int, d_v: int, bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, heads, d_k, d_v, bias, dropout)
        self.score = nn.Parameter(torch.empty(heads, d_k, d_k))
        nn.init.normal_(self.score, std=d_k**-0.5)

    def scores(
        self, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H N K"]
    ) -> Float[Tensor, "B H T N"]:
        return query @ self.score @ key.transpose(-2, -1)


class AdditiveMultiHeadAttention(ScoredAttention):
    """vᵀ tanh(W q + U k): a feed-forward network with one hidden layer of d_k units in each head.

    W and U are the projections W^Q and W^K (Bahdanau et al. 2015; section 3.2.1).
    """

    def __init__(
        self, d_model: int, heads: int, d_k: int, d_v: int, bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__(d_model, heads, d_k, d_v, bias, dropout)
        self.score = nn.Parameter(torch.empty(heads, d_k))
        nn.init.normal_(self.score, std=d_k**-0.5)

    def scores(
        self, query: Float[Tensor, "B H T K"], key: Float[Tensor, "B H N K"]
    ) -> Float[Tensor, "B H T N"]:
        hidden = torch.tanh(query[:, :, :, None] + key[:, :, None])  # [B, H, T, N, K]
        return (hidden @ self.score[:, None, :, None]).squeeze(-1)


# ---- self-attention restricted to a neighbourhood (section 4)


class RestrictedAttention(MultiHeadAttention):
    """Self-attention to the positions at most `radius` away. Time and memory grow as radius · n."""

    radius: int

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        if mask is not None and mask.size(2) > 1:  # of cached decoding: `RestrictedState` has restricted it
            return super().attend(query, memory, mask)
        tokens = query.size(2)
        if self.attention_weights_hook is None and tokens > 3 * self.radius:
            return self.output(self._in_blocks(query, memory, mask, causal).transpose(1, 2).flatten(2))
        allowed = band(tokens, self.radius, causal, query.device)[None, None]
        return super().attend(query, memory, with_some_key(allowed if mask is None else allowed & mask))

    def _in_blocks(
        self,
        query: Float[Tensor, "B H n K"],
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 1 n"] | None,
        causal: bool,
    ) -> Float[Tensor, "B H n Kv"]:
        """Each block of `radius` queries attends to itself, the one before, and, if not causal, the next."""
        size, tokens = self.radius, query.size(2)
        blocks, width = -(-tokens // size), (2 if causal else 3) * size
        after = blocks * size - tokens
        sides = size, after + width - 2 * size  # of padding, before and after the keys

        def windows(x: Tensor) -> Tensor:  # [B, H, n, K] → [B · blocks, H, width, K]
            unfolded = F.pad(x, (0, 0, *sides)).unfold(2, width, size)
            return unfolded.permute(0, 2, 1, 4, 3).flatten(0, 1)

        queries = F.pad(query, (0, 0, 0, after)).unflatten(2, (blocks, size)).transpose(1, 2).flatten(0, 1)
        present = query.new_ones(1, tokens, dtype=torch.bool) if mask is None else mask[:, 0, 0]
        keys = F.pad(present, sides).unfold(1, width, size)  # [B, blocks, width]
        near = band(width, size, causal, query.device)[size : 2 * size]  # [size, width]
        allowed = with_some_key((near & keys[:, :, None]).expand(len(query), -1, -1, -1).flatten(0, 1))
        heads = F.scaled_dot_product_attention(
            queries,
            windows(memory.keys),
            windows(memory.values),
            attn_mask=allowed[:, None],
            dropout_p=self.dropout if self.training else 0.0,
        )
        return heads.unflatten(0, (-1, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :tokens]


def band(tokens: int, radius: int, causal: bool, device: torch.device) -> Bool[Tensor, "n n"]:
    """Each position attends to those at most `radius` away; with `causal`, to no later one."""
    ones = torch.ones(tokens, tokens, dtype=torch.bool, device=device)
    return ones.tril(0 if causal else radius).triu(-radius)


def with_some_key(mask: Bool[Tensor, "*N T K"]) -> Bool[Tensor, "*N T K"]:
    """The mask, but a query without any key attends to all: a padding position, whose output is not used."""
    return mask | ~mask.any(-1, keepdim=True)


@dataclass(frozen=True)
class RestrictedState(TransformerState):
    """A state whose prefixes attend to their last tokens only."""

    radius: int = 0

    def advance(self, tokens: int) -> tuple["TransformerState", Bool[Tensor, "B 1 Q N"] | None]:
        after, mask = super().advance(tokens)
        if mask is None:
            return after, None
        positions = torch.arange(after.length, device=mask.device)
        near = positions[-tokens:, None] - positions <= self.radius
        return after, mask & near.repeat_interleave(self.beams, 0).repeat_interleave(self.beams, 1)


# ---- a recurrence in place of the decoder's self-attention (Kim et al. 2019)


class SimplerRecurrentUnit(nn.Module):
    """max(0, c_t) with c_t = f_t c_{t-1} + (1 - f_t) W x_t and f_t = sigmoid(W_f x_t + b_f).

    It has the two calls of attention. `RecurrentState.append` computes the cells c, from 0.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.candidate = nn.Linear(d_model, d_model, bias=False)
        self.forget = nn.Linear(d_model, d_model)
        for linear in (self.candidate, self.forget):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.forget.bias)

    def project(self, x: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B T D"], KeysValues]:
        """The input, and as one head's keys and values: what stays of the cell, and what is added to it."""
        kept = torch.sigmoid(self.forget(x))
        return x, KeysValues(kept[:, None], ((1 - kept) * self.candidate(x))[:, None])

    def attend(
        self,
        query: Float[Tensor, "B T D"],  # noqa: ARG002  the cells have read it
        memory: KeysValues,
        mask: Bool[Tensor, "#B 1 #T N"] | None = None,  # noqa: ARG002
        causal: bool = False,  # noqa: ARG002
    ) -> Float[Tensor, "B T D"]:
        """The output, from the cell at each token."""
        return F.relu(memory.values.squeeze(1))


@dataclass(frozen=True)
class RecurrentState(TransformerState):
    """A state that has one cell of each hypothesis for each layer, in place of keys and values."""

    cells: list[Tensor] = field(default_factory=list)
    """[B W D] of each layer."""

    def allocate(self, beams: int, max_length: int) -> "RecurrentState":
        cells = [cell.expand(-1, beams, -1) for cell in self.cells]
        return replace(cast(RecurrentState, super().allocate(beams, max_length)), cache=[], cells=cells)

    def append(self, layer: int, new: KeysValues) -> KeysValues:
        """The cells after each of the new tokens."""
        kept, added = (part.squeeze(1).unflatten(1, (-1, self.beams)).unbind(1) for part in new)
        cells = [self.cells[layer]]
        for share, addend in zip(kept, added, strict=True):
            cells.append(share * cells[-1] + addend)
        self.cells[layer] = cells[-1]
        together = torch.stack(cells[1:], 1).flatten(1, 2)[:, None]
        return KeysValues(together, together)

    def advance(self, tokens: int) -> tuple["RecurrentState", None]:
        return replace(self, length=self.length + tokens), None

    def reorder(self, rows: Int[Tensor, "R"]) -> "RecurrentState":
        cells = [cell.flatten(0, 1).index_select(0, rows).view_as(cell) for cell in self.cells]
        return replace(self, cells=cells)

    def select(self, sentences: Int[Tensor, "B2"]) -> "RecurrentState":
        cells = [cell.index_select(0, sentences) for cell in self.cells]
        return replace(cast(RecurrentState, super().select(sentences)), cells=cells)


# ---- normalisation, residual connections, positions


class BatchNorm(nn.Module):
    """Batch normalisation of each feature over all tokens of a batch but padding (Ioffe and Szegedy 2015).

    In evaluation it uses running averages of the mean and of the unbiased variance. These are weights without
    a gradient, so checkpoints keep them.
    """

    momentum = 0.1

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.mean = nn.Parameter(torch.zeros(width), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(width), requires_grad=False)
        self.epsilon = epsilon
        self.tokens: Bool[Tensor, "B T"] | None = None
        """Where the batch has tokens. Set before each call in training."""

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Normalise by the batch's statistics in training, by the running averages otherwise."""
        mean: Tensor = self.mean
        variance: Tensor = self.variance
        if self.training:
            assert self.tokens is not None
            rows = x[self.tokens].float()
            mean, variance = rows.mean(0), rows.var(0, unbiased=False)
            unbiased = variance * (len(rows) / max(len(rows) - 1, 1))
            with torch.no_grad():  # as a gradient, a batch that is not finite changes nothing
                is_finite = (mean + unbiased).isfinite().all()
                for average, statistic in ((self.mean, mean), (self.variance, unbiased)):
                    average.lerp_(torch.where(is_finite, statistic.to(average), average), self.momentum)
        scale = self.weight * (variance + self.epsilon).rsqrt()
        return x * scale.to(x) + (self.bias - mean * scale).to(x)


class VariedResidual(Residual):
    """Norm(x + Dropout(Sublayer(x))) with another norm, or Norm(Dropout(Sublayer(x)))."""

    adds: bool

    def after(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        total = x + self.dropout(y) if self.adds else self.dropout(y)
        return total if self.pre else self.norm(total)


class VariedTransformer(Transformer):
    """A Transformer with the variants that its settings ask for (`ModelSettings.variants`)."""

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__(settings, source_vocabulary, target_vocabulary)
        for layer in (*self.encoder, *self.decoder):
            vary_attention(cast(EncoderLayer | DecoderLayer, layer), settings)
        vary_residuals(self, settings)
        width = settings.d_model
        self.combine = nn.Linear(2 * width, width, bias=False) if settings.concatenate_positions else None

    def embed(
        self, ids: Tensor, embedding: nn.Embedding, positions: Float[Tensor, "T D"]
    ) -> Float[Tensor, "B T D"]:
        """As `Transformer.embed`, or, with `concatenate_positions`, both side by side, and a matrix."""
        if self.combine is None:
            return super().embed(ids, embedding, positions)
        scale = self.settings.d_model**0.5 if self.settings.scale_embeddings else 1.0
        embedded = embedding(ids) * scale
        return self.dropout(self.combine(torch.cat([embedded, positions.expand_as(embedded)], -1)))

    def encode(self, source: Int[Tensor, "B S"]) -> TransformerState:
        set_token_masks(self.encoder, source)
        state = super().encode(source)
        if self.settings.decoder_mixer == "ssru":
            start = self.output.weight.new_zeros(len(source), 1, self.settings.d_model)
            return RecurrentState(**vars(state), cells=[start] * len(self.decoder))
        if self.settings.neighbourhood is None:
            return state
        return RestrictedState(**vars(state), radius=self.settings.neighbourhood // 2)

    def decode(
        self, target: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], TransformerState]:
        set_token_masks(self.decoder, target)
        if self.settings.decoder_start == "end":
            target = target.masked_fill(target == START, END)
        return super().decode(target, state)


def set_token_masks(layers: nn.Module, ids: Int[Tensor, "B T"]) -> None:
    """Give each batch normalisation of these layers the mask of the batch's tokens."""
    for module in layers.modules():
        if isinstance(module, BatchNorm):
            module.tokens = ids != PAD


SCORES: dict[str | None, type[MultiHeadAttention]] = {
    None: MultiHeadAttention,
    "dot": DotProductAttention,
    "general": GeneralAttention,
    "additive": AdditiveMultiHeadAttention,
}


def vary_attention(layer: EncoderLayer | DecoderLayer, settings: ModelSettings) -> None:
    """Replace a layer's attention by the one that the settings ask for."""
    if settings.neighbourhood is not None:
        layer.self_attention.__class__ = RestrictedAttention
        cast(RestrictedAttention, layer.self_attention).radius = settings.neighbourhood // 2
    if settings.attention_score is not None:
        kind = SCORES[settings.attention_score]
        layer.self_attention = make_attention(settings, kind)
        if isinstance(layer, DecoderLayer):
            layer.cross_attention = make_attention(settings, kind)
    if isinstance(layer, DecoderLayer) and settings.decoder_mixer == "ssru":
        layer.register_module("self_attention", SimplerRecurrentUnit(settings.d_model))


def vary_residuals(model: nn.Module, settings: ModelSettings) -> None:
    """Replace the norms of all residual connections, or take their sums away, as the settings ask for."""
    if settings.norm in ("post", "pre") and settings.residual:
        return
    for residual in [module for module in model.modules() if isinstance(module, Residual)]:
        residual.__class__ = VariedResidual
        cast(VariedResidual, residual).adds = settings.residual
        if settings.norm == "batch":
            residual.register_module("norm", BatchNorm(settings.d_model, settings.norm_epsilon))
        elif settings.norm == "none":
            residual.register_module("norm", nn.Identity())
