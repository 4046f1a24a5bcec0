"""The recurrent baseline: an LSTM or GRU encoder-decoder with additive attention (Bahdanau et al. 2015).

Shapes: B sentences, S source and T target tokens, R = B · W prefixes, D = d_model, M = 2 D, L decoder layers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.model.interface import Model, State
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD

UNSUPPORTED = (
    "d_k",
    "d_v",
    "attention_dropout",
    "positions",
    "first_position",
    "source_end",
    "norm",
    "norm_epsilon",
    "activation",
    "attention_bias",
    "output_bias",
    "scale_embeddings",
    "kernel_width",
    "dilated",
    "concatenate_positions",
    "residual",
    "attention_score",
    "neighbourhood",
)
"""Settings of other architectures."""


class AdditiveAttention(nn.Module):
    """softmax(vᵀ tanh(W q + U k)) V: a feed-forward network with one hidden layer compares query and key."""

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.attention_weights_hook: Callable[[Tensor], None] | None = None
        """If set, this is called with the weights of every attention [B 1 W S], as those of one head."""

    def forward(
        self,
        query: Float[Tensor, "R D"],
        keys: Float[Tensor, "B S D"],
        memory: Float[Tensor, "B S M"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "R M"]:
        """The context of each query. `keys` is `self.key(memory)`; W queries share a sentence's keys."""
        sentences, _, width = keys.shape
        queries = self.query(query).view(sentences, -1, 1, width)
        scores = self.score(torch.tanh(queries + keys[:, None])).squeeze(-1)
        weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
        if self.attention_weights_hook is not None:
            self.attention_weights_hook(weights[:, None])
        return (weights @ memory).flatten(0, 1)


@dataclass(frozen=True)
class RecurrentState(State):
    """The encoder's states and their keys, one a source token; the decoder's, one a layer and prefix."""

    memory: Float[Tensor, "B S M"]
    keys: Float[Tensor, "B S D"]
    mask: Bool[Tensor, "B S"]
    hidden: Float[Tensor, "R L D"]
    cell: Float[Tensor, "R L D"]

    def allocate(self, beams: int, max_length: int) -> "RecurrentState":  # noqa: ARG002  a recurrent state has one size
        return replace(
            self, hidden=self.hidden.repeat_interleave(beams, 0), cell=self.cell.repeat_interleave(beams, 0)
        )

    def reorder(self, rows: Int[Tensor, "R"]) -> "RecurrentState":
        return replace(self, hidden=self.hidden[rows], cell=self.cell[rows])

    def select(self, sentences: Int[Tensor, "B2"]) -> "RecurrentState":
        hidden = self.hidden.unflatten(0, (len(self.mask), -1))[sentences].flatten(0, 1)
        cell = self.cell.unflatten(0, (len(self.mask), -1))[sentences].flatten(0, 1)
        return RecurrentState(
            self.memory[sentences], self.keys[sentences], self.mask[sentences], hidden, cell
        )


class Recurrent(Model):
    """A bidirectional encoder, and a decoder whose previous state is the query of its attention.

    It uses the settings `d_model`, the two depths, `dropout` and `tied`. Raises `DragomanError` for settings
    that it has not (the Transformer's sizes are ignored, since presets set them) and for tied embeddings of
    different vocabularies.
    """

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        settings.refuse(*UNSUPPORTED)
        settings.check_vocabularies(source_vocabulary, target_vocabulary)
        width, depth = settings.d_model, settings.decoder_layers
        self.target_embedding = nn.Embedding(target_vocabulary, width)
        self.source_embedding = (
            self.target_embedding if settings.tied == "all" else nn.Embedding(source_vocabulary, width)
        )
        self.output = (
            nn.Embedding(target_vocabulary, width) if settings.tied == "none" else self.target_embedding
        )
        embeddings = (self.target_embedding, self.source_embedding, self.output)
        for embedding in dict.fromkeys(embeddings):  # in this order, each once
            nn.init.normal_(embedding.weight, std=width**-0.5)
        lstm = settings.architecture == "lstm"
        self.encoder = (nn.LSTM if lstm else nn.GRU)(
            width,
            width,
            settings.encoder_layers,
            batch_first=True,
            bidirectional=True,
            dropout=settings.dropout if settings.encoder_layers > 1 else 0.0,
        )
        self.attention = AdditiveAttention(width, 2 * width, width)
        self.start = nn.Linear(2 * width, depth * width)
        cells = nn.LSTMCell if lstm else nn.GRUCell
        self.decoder = nn.ModuleList(
            cells(3 * width if layer == 0 else width, width) for layer in range(depth)
        )
        self.features = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(settings.dropout)

    def encode(self, source: Int[Tensor, "B S"]) -> RecurrentState:
        mask = source != PAD
        lengths = mask.sum(1)
        embedded = self.dropout(self.source_embedding(source))
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        memory, _ = pad_packed_sequence(
            self.encoder(packed)[0], batch_first=True, total_length=source.size(1)
        )
        mean = memory.sum(1) / lengths[:, None]
        hidden = torch.tanh(self.start(mean)).view(len(source), len(self.decoder), -1)
        return RecurrentState(memory, self.attention.key(memory), mask, hidden, torch.zeros_like(hidden))

    def decode(
        self, target: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], RecurrentState]:
        assert isinstance(state, RecurrentState)
        features = []
        for embedded in self.dropout(self.target_embedding(target)).unbind(1):
            feature, state = self._step(embedded, state)
            features.append(feature)
        return torch.stack(features, 1), state

    def _step(
        self, embedded: Float[Tensor, "R D"], state: RecurrentState
    ) -> tuple[Float[Tensor, "R D"], RecurrentState]:
        context = self.attention(state.hidden[:, 0], state.keys, state.memory, state.mask)
        x, hidden, cell = torch.cat([embedded, context], -1), [], []
        for layer, old_hidden, old_cell in zip(
            self.decoder, state.hidden.unbind(1), state.cell.unbind(1), strict=True
        ):
            if isinstance(layer, nn.LSTMCell):
                new_hidden, new_cell = layer(x, (old_hidden, old_cell))
            else:
                new_hidden, new_cell = layer(x, old_hidden), old_cell
            hidden.append(new_hidden)
            cell.append(new_cell)
            x = self.dropout(new_hidden)
        feature = torch.tanh(self.features(torch.cat([x, context, embedded], -1)))
        return feature, replace(state, hidden=torch.stack(hidden, 1), cell=torch.stack(cell, 1))

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return F.linear(self.dropout(features), self.output.weight)
