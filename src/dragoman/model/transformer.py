"""The Transformer (sections 3.1, 3.3, 3.4 and Figure 1).

Shapes: B sentences, S and T tokens, D = d_model, R = B · W prefixes, Q = W · T queries of a sentence, N keys.
"""

import math
from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import KeysValues, MultiHeadAttention
from dragoman.model.cache import TransformerState
from dragoman.model.interface import Model, State
from dragoman.model.positions import Positions
from dragoman.model.settings import Activation, ModelSettings
from dragoman.model.symbols import END, PAD
from dragoman.system.options import check_rules

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2, at each position alike (section 3.3).

    The activation of equation 2 is ReLU, max(0, x).
    """

    def __init__(self, settings: ModelSettings, d_ff: int | None = None) -> None:
        super().__init__()
        width = d_ff or settings.d_ff
        self.inner = nn.Linear(settings.d_model, width)
        self.outer = nn.Linear(width, settings.d_model)
        self.activation = ACTIVATIONS[settings.activation]
        # Weights stay uniform in ±1/√fan_in, PyTorch's default, as fairseq's do (experiments/LOG.md).
        for linear in (self.inner, self.outer):
            nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """FFN(x), at every position alike (equation 2)."""
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))), around every sub-layer (sections 3.1 and 5.4), or with
    `norm = "pre"` x + Dropout(Sublayer(LayerNorm(x))).
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.norm = nn.LayerNorm(settings.d_model, settings.norm_epsilon)
        self.dropout = nn.Dropout(settings.dropout)

    def before(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The sub-layer's input."""
        return self.norm(x) if self.pre else x

    def after(self, x: Float[Tensor, "B T D"], y: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The next sub-layer's x, from x and the sub-layer's output y."""
        total = x + self.dropout(y)
        return total if self.pre else self.norm(total)


def make_attention(
    settings: ModelSettings, kind: type[MultiHeadAttention] = MultiHeadAttention
) -> MultiHeadAttention:
    """Attention of this kind, of the sizes that the settings give."""
    keys, values = settings.key_width, settings.value_width
    bias, dropout = settings.attention_bias, settings.attention_dropout
    return kind(settings.d_model, settings.heads, keys, values, bias=bias, dropout=dropout)


class EncoderLayer(nn.Module):
    """Figure 1, left: self-attention, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = make_attention(settings)
        self.self_attention_residual = Residual(settings)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_residual = Residual(settings)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B 1 1 S"] | None
    ) -> Float[Tensor, "B S D"]:
        """The next layer's x. The mask is True at tokens that may be attended to; None allows all."""
        residual = self.self_attention_residual
        query, key_value = self.self_attention.project(residual.before(x))
        x = residual.after(x, self.self_attention.attend(query, key_value, mask))
        residual = self.feed_forward_residual
        return residual.after(x, self.feed_forward(residual.before(x)))


class DecoderLayer(nn.Module):
    """Figure 1, right: masked self-attention, attention over the encoder's output, then feed-forward."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.self_attention = make_attention(settings)
        self.self_attention_residual = Residual(settings)
        self.cross_attention = make_attention(settings)
        self.cross_attention_residual = Residual(settings)
        self.feed_forward = FeedForward(settings, settings.decoder_d_ff)
        self.feed_forward_residual = Residual(settings)

    def project_memory(self, encoder_output: Float[Tensor, "B S D"]) -> KeysValues:
        """Keys and values of the encoder's output for this layer's encoder-decoder attention."""
        return self.cross_attention.project_memory(encoder_output)

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        state: TransformerState,
        layer: int,
        mask: Bool[Tensor, "B 1 Q N"] | None,
    ) -> Float[Tensor, "B Q D"]:
        """The next layer's x; appends to cache `layer` of the state. A mask of None is causal."""
        residual = self.self_attention_residual
        query, key_value = self.self_attention.project(residual.before(x))
        attended = self.self_attention.attend(
            query, state.append(layer, key_value), mask, causal=not state.cache
        )
        x = residual.after(x, attended)
        residual = self.cross_attention_residual
        query = self.cross_attention.project_query(residual.before(x))
        x = residual.after(x, self.cross_attention.attend(query, state.memory[layer], state.mask))
        residual = self.feed_forward_residual
        return residual.after(x, self.feed_forward(residual.before(x)))


class Transformer(Model):
    """The encoder-decoder of Figure 1, for `source_vocabulary` and `target_vocabulary` ids.

    Raises `DragomanError` if the settings tie embeddings of different vocabularies, or are of baselines.
    """

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        check_rules(settings)
        settings.check_vocabularies(source_vocabulary, target_vocabulary)
        self.settings = settings
        self.target_embedding = self._embedding(target_vocabulary)
        shared = settings.tied == "all"
        self.source_embedding = self.target_embedding if shared else self._embedding(source_vocabulary)
        self.longest_source = self.longest_target = settings.longest
        self.source_positions, self.target_positions = Positions(settings), Positions(settings)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        pre = settings.norm == "pre"
        self.encoder_norm = nn.LayerNorm(settings.d_model, settings.norm_epsilon) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(settings.d_model, settings.norm_epsilon) if pre else nn.Identity()
        self.output = self.target_embedding if settings.tied != "none" else self._embedding(target_vocabulary)
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary)) if settings.output_bias else None

    def _embedding(self, vocabulary: int) -> nn.Embedding:
        embedding = nn.Embedding(vocabulary, self.settings.d_model)
        nn.init.normal_(embedding.weight, std=self.settings.d_model**-0.5)
        return embedding

    def embed(
        self, ids: Tensor, embedding: nn.Embedding, positions: Float[Tensor, "T D"]
    ) -> Float[Tensor, "B T D"]:
        """Embeddings times √d_model (with `scale_embeddings`), plus positions (sections 3.4 and 3.5)."""
        scale = math.sqrt(self.settings.d_model) if self.settings.scale_embeddings else 1.0
        return self.dropout(embedding(ids) * scale + positions)

    def layers(self) -> list[tuple[nn.Module, list[str]]]:
        return [
            *((layer, []) for layer in self.encoder),
            *((layer, ["project_memory"]) for layer in self.decoder),
        ]

    def source_mask(self, source: Int[Tensor, "B S"]) -> Bool[Tensor, "B 1 1 S"]:
        """Where a source may be attended to: not at padding and, with `source_end = false`, not at END."""
        mask = source != PAD
        return (mask if self.settings.source_end else mask & (source != END))[:, None, None, :]

    def encode(self, source: Int[Tensor, "B S"]) -> TransformerState:
        mask = self.source_mask(source)
        x = self.embed(source, self.source_embedding, self.source_positions(0, source.size(1)))
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.encoder_norm(x)
        memory = [cast(DecoderLayer, layer).project_memory(x) for layer in self.decoder]
        ancestry = mask.new_empty(source.size(0), 1, 0, 1)
        return TransformerState(memory, mask, ancestry, cache=[], encoder_output=x)

    def decode(
        self, target: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], TransformerState]:
        assert isinstance(state, TransformerState)
        tokens, beams = target.size(1), state.beams
        x = self.embed(target, self.target_embedding, state.positions(self.target_positions, tokens))
        x = x.unflatten(0, (-1, beams)).transpose(1, 2).flatten(1, 2)  # [B, T · W, D]
        after, mask = state.advance(tokens)
        for number, layer in enumerate(self.decoder):
            x = layer(x, state, number, mask)
        return self.decoder_norm(x).unflatten(1, (-1, beams)).transpose(1, 2).flatten(0, 1), after

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return F.linear(features, self.output.weight, self.output_bias)
