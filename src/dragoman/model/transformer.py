"""The Transformer (sections 3.1, 3.3, 3.4 and Figure 1). Shapes: B sentences, S and T tokens, D = d_model, R = B · W prefixes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.errors import DragomanError
from dragoman.model import kernels
from dragoman.model.attention import KeysValues, MultiHeadAttention, causal_mask
from dragoman.model.contract import Model, State
from dragoman.model.dropout import Dropout
from dragoman.model.kernels import Fusible
from dragoman.model.linear import KINDS
from dragoman.model.positions import Positions
from dragoman.model.settings import Activation, ModelSettings, Precision, two_vocabularies
from dragoman.model.symbols import END, PAD

ROOM = 16  # target tokens for which there is room at first; it is doubled when it is used up
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForward(Fusible):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, at each position alike (section 3.3)."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.inner = nn.Linear(settings.d_model, settings.d_ff)
        self.outer = nn.Linear(settings.d_ff, settings.d_model)
        self.activation = ACTIVATIONS[settings.activation]
        for linear in (self.inner, self.outer):  # the weights stay uniform in ±1/√inputs, as fairseq's (experiments/LOG.md)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        if self.fused and self.training and self.activation is F.relu and kernels.takes_products(x):
            return kernels.feed_forward(x, self.inner, self.outer)
        return self.outer(self.activation(self.inner(x)))


class Residual(Fusible):
    """LayerNorm(x + Dropout(Sublayer(x))), around every sub-layer (sections 3.1 and 5.4).

    With `norm = "pre"` it is x + Dropout(Sublayer(LayerNorm(x))).
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.d_model, settings.norm_epsilon)
        self.dropout = Dropout(settings.dropout)

    def before(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """What the sub-layer reads."""
        return self.norm(x) if self.pre else x

    def after(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """What the next sub-layer gets, of x and the sub-layer's output y."""
        if self.fused and self.training and not self.pre and kernels.takes(y):
            return kernels.residual(x, y, self.dropout.draw(), self.norm)
        total = x + self.dropout(y)
        return total if self.pre else self.norm(total)


def _attention(settings: ModelSettings) -> MultiHeadAttention:
    return MultiHeadAttention(
        settings.d_model,
        settings.heads,
        settings.key_width,
        settings.value_width,
        bias=settings.attention_bias,
        dropout=settings.attention_dropout,
    )


class EncoderLayer(nn.Module):
    """Figure 1, left: self-attention, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = _attention(settings)
        self.self_attention_residual = Residual(settings)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_residual = Residual(settings)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B 1 1 S"] | None) -> Float[Tensor, "B S D"]:
        residual = self.self_attention_residual
        queries, here = self.self_attention.project(residual.before(x))
        x = residual.after(x, self.self_attention.look(queries, here, mask))
        residual = self.feed_forward_residual
        return residual.after(x, self.feed_forward(residual.before(x)))


@dataclass(frozen=True)
class TransformerState(State):
    """Keys and values of the sources, one pair a decoder layer, and room for those of the target prefixes.

    The W hypotheses of a sentence are W times as many positions of one row: they look at the source's keys and values together,
    and write their own side by side. Nothing that was written moves again: which places each hypothesis descends from is in
    `line`. `past` is written in place and valid up to `length` tokens; it is empty in training.
    """

    memory: list[KeysValues]
    mask: Bool[Tensor, "B 1 1 S"] | None
    past: list[KeysValues]
    line: Bool[Tensor, "B W L W"]
    length: int = 0

    @property
    def beams(self) -> int:
        """W; in training each row is a sentence of its own."""
        return self.line.size(1)

    def with_room(self, beams: int, length: int) -> "TransformerState":
        def room(memory: Tensor) -> Tensor:
            sentences, heads, _, width = memory.shape
            return memory.new_empty(sentences, heads, min(length, ROOM) * beams, width)

        memory = [KeysValues(keys.contiguous(), values.contiguous()) for keys, values in self.memory]
        past = [KeysValues(room(keys), room(values)) for keys, values in memory]
        mask = None if self.mask is None or self.mask.all() else self.mask
        return replace(self, memory=memory, mask=mask, past=past, line=self.line.new_empty(len(self.line), beams, 0, beams), length=0)

    def positions(self, table: Positions, tokens: int) -> Float[Tensor, "T D"]:
        """The positions of the next tokens."""
        return table(self.length, tokens)

    def remember(self, layer: int, here: KeysValues) -> KeysValues:
        """All that a layer's self-attention may look at: what was written before and what is here; in training the latter alone."""
        if not self.past:
            return here
        start = self.length * self.beams
        end = start + here.keys.size(2)
        if end > self.past[layer].keys.size(2):
            self.past[layer] = KeysValues(*(twice(cache, end) for cache in self.past[layer]))
        cache = self.past[layer]
        cache.keys[:, :, start:end], cache.values[:, :, start:end] = here
        return KeysValues(cache.keys[:, :, :end], cache.values[:, :, :end])

    def read(self, tokens: int) -> tuple["TransformerState", Bool[Tensor, "B 1 N M"] | None]:
        """The state after so many more tokens of each hypothesis, and what these may look at: themselves and their own line."""
        if not self.past:
            return replace(self, length=self.length + tokens), None
        own = torch.eye(self.beams, dtype=torch.bool, device=self.line.device)[:, None].expand(len(self.line), -1, tokens, -1)
        after = replace(self, line=torch.cat([self.line, own], 2), length=self.length + tokens)
        if tokens == 1:
            return after, None if self.beams == 1 else after.line.flatten(2)[:, None]
        until = causal_mask(tokens, after.length, self.line.device)[0, 0]
        mask = after.line[:, None] & until[:, None, :, None]
        return after, mask.flatten(3).flatten(1, 2)[:, None]

    def reorder(self, rows: Int[Tensor, "R"]) -> "TransformerState":
        return replace(self, line=self.line.flatten(0, 1).index_select(0, rows).view_as(self.line))

    def keep(self, sentences: Int[Tensor, "B2"]) -> "TransformerState":
        def kept(cache: Tensor) -> Tensor:
            written = self.length * self.beams
            room = cache.new_empty(len(sentences), *cache.shape[1:])
            room[:, :, :written] = cache[:, :, :written].index_select(0, sentences)
            return room

        return replace(
            self,
            memory=[KeysValues(keys.index_select(0, sentences), values.index_select(0, sentences)) for keys, values in self.memory],
            mask=None if self.mask is None else self.mask.index_select(0, sentences),
            past=[KeysValues(kept(keys), kept(values)) for keys, values in self.past],
            line=self.line.index_select(0, sentences),
        )


def twice(cache: Float[Tensor, "B H M K"], least: int) -> Float[Tensor, "B H M2 K"]:
    """The same beginning with room for twice as many places, or for `least`."""
    sentences, heads, places, width = cache.shape
    room = cache.new_empty(sentences, heads, max(2 * places, least), width)
    room[:, :, :places] = cache
    return room


class DecoderLayer(nn.Module):
    """Figure 1, right: masked self-attention, attention over the encoder's output, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = _attention(settings)
        self.self_attention_residual = Residual(settings)
        self.cross_attention = _attention(settings)
        self.cross_attention_residual = Residual(settings)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_residual = Residual(settings)

    def remember(self, memory: Float[Tensor, "B S D"]) -> KeysValues:
        """Of the encoder's output, what this layer will look at."""
        return self.cross_attention.remember(memory)

    def forward(
        self, x: Float[Tensor, "B N D"], state: TransformerState, layer: int, mask: Bool[Tensor, "B 1 N M"] | None
    ) -> Float[Tensor, "B N D"]:
        residual = self.self_attention_residual
        queries, here = self.self_attention.project(residual.before(x))
        x = residual.after(x, self.self_attention.look(queries, state.remember(layer, here), mask, causal=not state.past))
        residual = self.cross_attention_residual
        queries = self.cross_attention.queries(residual.before(x))
        x = residual.after(x, self.cross_attention.look(queries, state.memory[layer], state.mask))
        residual = self.feed_forward_residual
        return residual.after(x, self.feed_forward(residual.before(x)))


class Transformer(Fusible, Model):
    """The encoder-decoder of Figure 1, for `source_vocabulary` and `target_vocabulary` ids.

    Raises `DragomanError` where the settings tie embeddings of different vocabularies.
    """

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        self.target_embedding = self._embedding(target_vocabulary)
        if settings.tied != "all":
            self.source_embedding = self._embedding(source_vocabulary)
        elif source_vocabulary == target_vocabulary:
            self.source_embedding = self.target_embedding
        else:
            raise DragomanError(two_vocabularies(source_vocabulary, target_vocabulary))
        self.longest_source = self.longest_target = settings.longest
        self.source_positions, self.target_positions = Positions(settings), Positions(settings)
        self.dropout = Dropout(settings.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        pre = settings.norm == "pre"
        self.encoder_norm = nn.LayerNorm(settings.d_model, settings.norm_epsilon) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(settings.d_model, settings.norm_epsilon) if pre else nn.Identity()
        tied = settings.tied != "none"
        self.output = self.target_embedding if tied else self._embedding(target_vocabulary)
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary)) if settings.output_bias else None
        self.packed_logits: Callable[[Tensor], Tensor] | None = None

    def _embedding(self, vocabulary: int) -> nn.Embedding:
        embedding = nn.Embedding(vocabulary, self.settings.d_model)
        nn.init.normal_(embedding.weight, std=self.settings.d_model**-0.5)
        return embedding

    def embed(self, ids: Tensor, embedding: nn.Embedding, positions: Float[Tensor, "T D"]) -> Float[Tensor, "B T D"]:
        """Embeddings times √d_model, plus positions (sections 3.4 and 3.5)."""
        scale = math.sqrt(self.settings.d_model) if self.settings.scale_embeddings else 1.0
        return self.dropout(embedding(ids) * scale + positions)

    def layers(self) -> list[tuple[nn.Module, list[str]]]:
        return [*((layer, []) for layer in self.encoder), *((layer, ["remember"]) for layer in self.decoder)]

    def read(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B 1 1 S"] | None = None) -> Float[Tensor, "B S D"]:
        """The encoder alone: one vector a source token."""
        x = self.embed(source, self.source_embedding, self.source_positions(0, source.size(1)))
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def source_mask(self, source: Int[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
        """Where a source may be looked at: not at its padding, and with `source_end = false` not at its END."""
        mask = source != PAD
        return (mask if self.settings.source_end else mask & (source != END))[:, None, None, :]

    def encode(self, source: Int[Tensor, "B S"]) -> TransformerState:
        mask = self.source_mask(source)
        memory = self.read(source, mask)
        keys_values = [cast(DecoderLayer, layer).remember(memory) for layer in self.decoder]
        return TransformerState(keys_values, mask, past=[], line=mask.new_empty(len(source), 1, 0, 1))

    def decode(self, target: Int[Tensor, "R T"], state: State) -> tuple[Float[Tensor, "R T D"], TransformerState]:
        assert isinstance(state, TransformerState)
        tokens, beams = target.size(1), state.beams
        x = self.embed(target, self.target_embedding, state.positions(self.target_positions, tokens))
        x = x.unflatten(0, (-1, beams)).transpose(1, 2).flatten(1, 2)  # the hypotheses' next tokens, then those after them
        after, mask = state.read(tokens)
        for number, layer in enumerate(self.decoder):
            x = layer(x, state, number, mask)
        return self.decoder_norm(x).unflatten(1, (-1, beams)).transpose(1, 2).flatten(0, 1), after

    def pack(self, precision: Precision) -> None:
        super().pack(precision)
        self.packed_logits = KINDS[precision](self.output.weight, self.output_bias).forward  # no part of the model

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        if self.packed_logits is not None:
            return self.packed_logits(features)
        if self.fused and self.training and kernels.takes_products(features):
            rows = features.reshape(-1, features.size(-1))
            return kernels.linear(rows, self.output.weight, self.output_bias).view(*features.shape[:-1], len(self.output.weight))
        return F.linear(features, self.output.weight, self.output_bias)
