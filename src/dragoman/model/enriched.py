"""Recurrent and convolutional models with the Transformer's other parts (Domhan 2018, sections 3 and 4).

A layer is one of Figure 1 with another sub-layer in place of self-attention: an LSTM or GRU, or a gated
convolution. Encoder-decoder attention with heads in every decoder layer, feed-forward sub-layers, residual
connections and normalisation are the Transformer's own modules and have its settings.

Shapes: B sentences, S source and T target tokens, R = B · W prefixes, Q = W · T queries of a sentence,
D = d_model, P rows that a layer keeps of a prefix.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import KeysValues
from dragoman.model.baseline_parts import PrefixState, make_embeddings
from dragoman.model.convolutional import GatedConvolution
from dragoman.model.interface import Model, State
from dragoman.model.positions import Positions
from dragoman.model.recurrent import states_of
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD
from dragoman.model.transformer import FeedForward, Residual, make_attention
from dragoman.model.variants import SCORES, set_token_masks, vary_residuals


class Recurrence(nn.Module):
    """A layer of an LSTM or GRU: of a whole text in both directions, each half as wide, or of a prefix."""

    def __init__(self, settings: ModelSettings, both_directions: bool) -> None:
        super().__init__()
        width = settings.d_model
        lstm = settings.architecture == "lstm-enriched"
        self.rnn = (nn.LSTM if lstm else nn.GRU)(
            width, width // 2 if both_directions else width, batch_first=True, bidirectional=both_directions
        )
        self.kept = 2 if lstm else 1
        """Rows of a prefix: its state, and an LSTM's cell."""

    def around(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S 1"]) -> Float[Tensor, "B S D"]:
        """The states of both directions at each token of whole texts."""
        return states_of(self.rnn, x, mask.squeeze(2))

    def extend(
        self, x: Float[Tensor, "R T D"], past: Float[Tensor, "R P D"]
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R P D"]]:
        """The states after each of T more tokens of each prefix, and what is kept of the longer prefixes."""
        before = past.transpose(0, 1).contiguous().split(1)  # [1, R, D] each
        y, after = self.rnn(x, before if len(before) == 2 else before[0])
        return y, torch.cat(after if len(before) == 2 else [after]).transpose(0, 1)


class Convolution(GatedConvolution):
    """A gated convolution around each token of a whole text, or of each token with those before it.

    Its initial variance is that of ConvS2S, for a dropped input, although only its output is dropped here.
    """

    @property
    def kept(self) -> int:
        """Rows of a prefix: its last inputs."""
        return self.reach

    def extend(
        self, x: Float[Tensor, "R T D"], past: Float[Tensor, "R P D"]
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R P D"]]:
        """As that of `Recurrence`."""
        inputs = torch.cat([past, x], 1)
        return self(inputs), inputs[:, x.size(1) :]


def make_token_mixer(settings: ModelSettings, layer: int, encodes: bool) -> Recurrence | Convolution:
    """The sub-layer in place of self-attention, through which a token sees others of its text."""
    if settings.architecture == "conv-enriched":
        return Convolution(settings, layer)
    return Recurrence(settings, both_directions=encodes)


class EnrichedEncoderLayer(nn.Module):
    """A recurrence in both directions, or a convolution around each token; then feed-forward."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.token_mixer = make_token_mixer(settings, layer, encodes=True)
        self.token_mixer_residual = Residual(settings)
        self.feed_forward = FeedForward(settings)
        self.feed_forward_residual = Residual(settings)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S 1"]) -> Float[Tensor, "B S D"]:
        """Both sub-layers, each with its residual connection; the mask is True at tokens."""
        residual = self.token_mixer_residual
        x = residual.after(x, self.token_mixer.around(residual.before(x), mask))
        residual = self.feed_forward_residual
        return residual.after(x, self.feed_forward(residual.before(x)))


class EnrichedDecoderLayer(nn.Module):
    """A recurrence or convolution over the prefix, multi-head attention to the source, then feed-forward."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.token_mixer = make_token_mixer(settings, layer, encodes=False)
        self.token_mixer_residual = Residual(settings)
        self.cross_attention = make_attention(settings, SCORES[settings.attention_score])
        self.cross_attention_residual = Residual(settings)
        self.feed_forward = FeedForward(settings, settings.decoder_d_ff)
        self.feed_forward_residual = Residual(settings)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        past: Float[Tensor, "R P D"],
        memory: KeysValues,
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R P D"]]:
        """The next layer's x, and what is kept of the longer prefixes."""
        residual = self.token_mixer_residual
        y, past = self.token_mixer.extend(residual.before(x), past)
        x = residual.after(x, y)
        residual = self.cross_attention_residual
        queries = residual.before(x).reshape(len(mask), -1, x.size(2))  # [B, Q, D]
        context = self.cross_attention.attend(self.cross_attention.project_query(queries), memory, mask)
        x = residual.after(x, context.view_as(x))
        residual = self.feed_forward_residual
        return residual.after(x, self.feed_forward(residual.before(x))), past


@dataclass(frozen=True)
class EnrichedState(PrefixState):
    """Keys and values of the source for each layer of the decoder.

    `past` has [R P D] for each layer. Before the first token they are 0.
    """

    memory: list[KeysValues]
    length: int = 0

    def select(self, sentences: Int[Tensor, "B2"]) -> "EnrichedState":
        memory = [KeysValues(keys[sentences], values[sentences]) for keys, values in self.memory]
        return replace(self, mask=self.mask[sentences], past=self.past_of(sentences), memory=memory)


class Enriched(Model):
    """Encoder and decoder of enriched layers.

    Raises `DragomanError` for tied embeddings of different vocabularies, and for heads that do not divide
    d_model.
    """

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings, width = settings, settings.d_model
        self.target_embedding, self.source_embedding, self.output = make_embeddings(
            settings, source_vocabulary, target_vocabulary, width**-0.5
        )
        self.longest_source = self.longest_target = settings.longest
        self.source_positions, self.target_positions = Positions(settings), Positions(settings)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = nn.ModuleList(
            EnrichedEncoderLayer(settings, layer) for layer in range(settings.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            EnrichedDecoderLayer(settings, layer) for layer in range(settings.decoder_layers)
        )
        vary_residuals(self, settings)
        pre = settings.norm == "pre"
        self.encoder_norm = nn.LayerNorm(width, settings.norm_epsilon) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width, settings.norm_epsilon) if pre else nn.Identity()

    def embed(self, ids: Tensor, embedding: nn.Embedding, positions: Tensor) -> Float[Tensor, "B T D"]:
        """Embeddings as the Transformer's, plus positions [T D]."""
        scale = self.settings.d_model**0.5 if self.settings.scale_embeddings else 1.0
        return self.dropout(embedding(ids) * scale + positions)

    def encode(self, source: Int[Tensor, "B S"]) -> EnrichedState:
        set_token_masks(self.encoder, source)
        mask = source != PAD
        x = self.embed(source, self.source_embedding, self.source_positions(0, source.size(1)))
        for layer in self.encoder:
            x = layer(x, mask[:, :, None])
        x, past, memory = self.encoder_norm(x), list[Tensor](), list[KeysValues]()
        for layer in self.decoder:
            assert isinstance(layer, EnrichedDecoderLayer)
            past.append(x.new_zeros(len(source), layer.token_mixer.kept, x.size(2)))
            memory.append(layer.cross_attention.project_memory(x))
        return EnrichedState(mask[:, None, None], past, memory)

    def decode(
        self, target: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], EnrichedState]:
        assert isinstance(state, EnrichedState)
        set_token_masks(self.decoder, target)
        positions = self.target_positions(state.length, target.size(1))
        x, past = self.embed(target, self.target_embedding, positions), []
        for layer, before, memory in zip(self.decoder, state.past, state.memory, strict=True):
            x, after = layer(x, before, memory, state.mask)
            past.append(after)
        return self.decoder_norm(x), replace(state, past=past, length=state.length + target.size(1))

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return F.linear(features, self.output.weight)
