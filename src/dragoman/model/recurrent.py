"""The recurrent baseline: an LSTM or GRU encoder-decoder with attention.

The model and its additive attention are those of Bahdanau et al. 2015; scores that are products, and input
feeding, are those of Luong et al. 2015. Unlike Bahdanau's, the decoder starts from the mean of the encoder's
states, its features are a tanh (Luong's attentional vector) and not a maxout, and both sides may have several
layers.

Shapes: B sentences, S source and T target tokens, R = B · W prefixes, D = d_model, M = 2 D, L decoder layers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.model.baseline_parts import PrefixState, make_embeddings
from dragoman.model.interface import Model, State
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD


class RecurrentAttention(nn.Module):
    """softmax(score(q, k)) V with one head; a subclass has the score, and the map that makes the keys.

    Its query is the decoder's last state, as Bahdanau's; Luong's is the new state of the top layer.
    """

    key: nn.Module
    """[B S M] → [B S D]: the keys of a memory, computed once for any number of queries."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_weights_hook: Callable[[Tensor], None] | None = None
        """If set, this is called with the weights of every attention [B 1 W S], as those of one head."""

    def scores(self, queries: Float[Tensor, "B W D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B W S"]:
        """The score of each query with each key."""
        raise NotImplementedError

    def forward(
        self,
        query: Float[Tensor, "R D"],
        keys: Float[Tensor, "B S D"],
        memory: Float[Tensor, "B S M"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "R M"]:
        """The context of each query. `keys` is `self.key(memory)`; W queries share a sentence's keys."""
        scores = self.scores(query.unflatten(0, (len(mask), -1)), keys)
        weights = scores.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
        if (hook := self.attention_weights_hook) is not None:
            hook(weights[:, None])
        return (weights @ memory).flatten(0, 1)


class AdditiveAttention(RecurrentAttention):
    """vᵀ tanh(W q + U k): a feed-forward network with one hidden layer compares query and key."""

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def scores(self, queries: Float[Tensor, "B W D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B W S"]:
        return self.score(torch.tanh(self.query(queries)[:, :, None] + keys[:, None])).squeeze(-1)


class DirectionSum(nn.Module):
    """The sum of the states of both directions, which is as wide as a state of the decoder."""

    def forward(self, memory: Float[Tensor, "B S M"]) -> Float[Tensor, "B S D"]:
        """The sum of the states of both directions."""
        forward, backward = memory.chunk(2, -1)
        return forward + backward


class ProductAttention(RecurrentAttention):
    """qᵀ k, as "dot" and "general" of Luong et al. 2015, which make the keys in different ways."""

    def __init__(self, key: nn.Module) -> None:
        super().__init__()
        self.key = key

    def scores(self, queries: Float[Tensor, "B W D"], keys: Float[Tensor, "B S D"]) -> Float[Tensor, "B W S"]:
        return queries @ keys.transpose(1, 2)


def make_recurrent_attention(settings: ModelSettings) -> RecurrentAttention:
    """Attention with the score that the settings ask for, additive by default."""
    width = settings.d_model
    if settings.attention_score == "dot":
        return ProductAttention(DirectionSum())
    if settings.attention_score == "general":
        return ProductAttention(nn.Linear(2 * width, width, bias=False))
    return AdditiveAttention(width, 2 * width, width)


@dataclass(frozen=True)
class RecurrentState(PrefixState):
    """The encoder's states and their keys, one per source token.

    `past` has the decoder's hidden states and cells, [R L D] each, and the last attentional vector [R F], of
    width D with input feeding and of width 0 without it.
    """

    memory: Float[Tensor, "B S M"]
    keys: Float[Tensor, "B S D"]

    def select(self, sentences: Int[Tensor, "B2"]) -> "RecurrentState":
        mask, memory, keys = (part[sentences] for part in (self.mask, self.memory, self.keys))
        return replace(self, mask=mask, past=self.past_of(sentences), memory=memory, keys=keys)


def states_of(
    rnn: nn.LSTM | nn.GRU, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]
) -> Float[Tensor, "B S M"]:
    """The states of both directions after each token of padded texts. They are 0 at padding."""
    packed = pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(rnn(packed)[0], batch_first=True, total_length=x.size(1))[0]


class Recurrent(Model):
    """A bidirectional encoder, and a decoder whose previous state is the query of its attention.

    It uses the settings `d_model`, the two depths, `dropout`, `tied`, `attention_score` and `input_feeding`.
    Raises `DragomanError` for tied embeddings of different vocabularies.
    """

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings = settings
        width, depth = settings.d_model, settings.decoder_layers
        self.target_embedding, self.source_embedding, self.output = make_embeddings(
            settings, source_vocabulary, target_vocabulary, width**-0.5
        )
        lstm = settings.architecture == "lstm"
        self.encoder = (nn.LSTM if lstm else nn.GRU)(
            width,
            width,
            settings.encoder_layers,
            batch_first=True,
            bidirectional=True,
            dropout=settings.dropout if settings.encoder_layers > 1 else 0.0,
        )
        self.attention = make_recurrent_attention(settings)
        self.start = nn.Linear(2 * width, depth * width)
        cells = nn.LSTMCell if lstm else nn.GRUCell
        self.fed = width if settings.input_feeding else 0
        self.decoder = nn.ModuleList(
            cells(width if layer else 3 * width + self.fed, width) for layer in range(depth)
        )
        self.features = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(settings.dropout)

    def encode(self, source: Int[Tensor, "B S"]) -> RecurrentState:
        mask = source != PAD
        memory = states_of(self.encoder, self.dropout(self.source_embedding(source)), mask)
        mean = memory.sum(1) / mask.sum(1)[:, None]
        hidden = torch.tanh(self.start(mean)).view(len(source), len(self.decoder), -1)
        past = [hidden, torch.zeros_like(hidden), hidden.new_zeros(len(source), self.fed)]
        return RecurrentState(mask, past, memory, self.attention.key(memory))

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
        old_hidden, old_cell, fed = state.past
        context = self.attention(old_hidden[:, 0], state.keys, state.memory, state.mask)
        x, hidden, cell = torch.cat([embedded, context, fed], -1), [], []
        for layer, layer_hidden, layer_cell in zip(
            self.decoder, old_hidden.unbind(1), old_cell.unbind(1), strict=True
        ):
            if isinstance(layer, nn.LSTMCell):
                new_hidden, new_cell = layer(x, (layer_hidden, layer_cell))
            else:
                new_hidden, new_cell = layer(x, layer_hidden), layer_cell
            hidden.append(new_hidden)
            cell.append(new_cell)
            x = self.dropout(new_hidden)
        feature = torch.tanh(self.features(torch.cat([x, context, embedded], -1)))
        past = [torch.stack(hidden, 1), torch.stack(cell, 1), feature[:, : self.fed]]
        return feature, replace(state, past=past)

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return F.linear(self.dropout(features), self.output.weight)
