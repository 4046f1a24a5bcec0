"""ConvS2S (Gehring et al. 2017): gated convolutions, and attention in every layer of the decoder.

Sections and equations are that paper's.

Shapes: B sentences, S source and T target tokens, R = B · W prefixes, D = d_model, N inputs of a layer, P of
them in the past.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.baseline_parts import PrefixState, make_embeddings
from dragoman.model.interface import Model, State
from dragoman.model.positions import Positions
from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD

HALF = math.sqrt(0.5)
"""This factor keeps the variance of a sum of two values of equal variance (section 3.4)."""
EMBEDDING_STD = 0.1
"""Standard deviation of embeddings and learned positions (section 3.5): scores are not scaled, so vectors
must be small."""
DISTANCES = (1, 2, 4, 8, 16)
"""Steps between the inputs of a dilated kernel in layer after layer, and again (Kalchbrenner et al. 2016)."""


def initialised(inputs: int, outputs: int, variance: float = 1.0) -> nn.Linear:
    """A linear map whose outputs have `variance` times the variance of its inputs (section 3.5)."""
    linear = nn.Linear(inputs, outputs)
    nn.init.normal_(linear.weight, std=math.sqrt(variance / inputs))
    nn.init.zeros_(linear.bias)
    return linear


class GatedConvolution(nn.Module):
    """A ⊗ σ(B) of [A B] = W [x_i; …; x_i+k-1] + b: a kernel of width k and a gated linear unit (section 3.2).

    The kernel is a linear map of a window, for a whole text and for one more token alike. Its initial
    variance makes up for the gate and for dropout of its input (section 3.5). The paper's weight
    normalisation is left out: with Adam these initial weights suffice.
    """

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        width = settings.d_model
        self.distance = DISTANCES[layer % len(DISTANCES)] if settings.dilated else 1
        self.reach = (settings.kernel_width - 1) * self.distance
        """Steps from the first input of a window to its last."""
        self.kernel = initialised(settings.kernel_width * width, 2 * width, 4 * (1 - settings.dropout))

    def forward(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B T D"]:
        """One output for each window: T = N - `reach`."""
        starts, outputs = range(0, self.reach + 1, self.distance), x.size(1) - self.reach
        windows = torch.cat([x[:, start : start + outputs] for start in starts], -1)
        return F.glu(self.kernel(windows), -1)

    def around(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S 1"]) -> Float[Tensor, "B S D"]:
        """The output for a window around each token of whole texts.

        It has as many inputs before the token as after it; if the kernel's width is even, one more comes
        after it. Positions beyond a text's ends are 0, including the batch's padding.
        """
        before = self.reach // 2
        masked = x * mask
        return self(F.pad(masked, (0, 0, before, self.reach - before)))


class EncoderBlock(nn.Module):
    """A convolution around each token."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.convolution, self.dropout = GatedConvolution(settings, layer), nn.Dropout(settings.dropout)

    def forward(self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S 1"]) -> Float[Tensor, "B S D"]:
        """(x + the convolution around each token) · √½; the mask is True at tokens."""
        return (x + self.convolution.around(self.dropout(x), mask)) * HALF


@dataclass(frozen=True)
class ConvolutionalState(PrefixState):
    """Keys and values of each source token, and the last inputs of each convolution of the decoder.

    `past` has [R P D] for each layer: P is the layer's `reach`. Before the first token they are 0.
    """

    keys: Float[Tensor, "B S D"]
    values: Float[Tensor, "B S D"]
    length: int = 0

    def select(self, sentences: Int[Tensor, "B2"]) -> "ConvolutionalState":
        mask, keys, values = (part[sentences] for part in (self.mask, self.keys, self.values))
        return replace(self, mask=mask, past=self.past_of(sentences), keys=keys, values=values)


class MultiStepAttention(nn.Module):
    """softmax(d zᵀ) (z + e): attention with one head, equations 1 and 2, added to the layer's output."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.output = initialised(width, width), initialised(width, width)
        self.attention_weights_hook: Callable[[Tensor], None] | None = None
        """If set, this is called with the weights of every attention [B 1 Q S], as those of one head."""

    def forward(
        self, x: Float[Tensor, "R T D"], embedded: Float[Tensor, "R T D"], state: ConvolutionalState
    ) -> Float[Tensor, "R T D"]:
        """From the convolution's output and the embedded tokens; W prefixes share a sentence's keys."""
        query = ((self.query(x) + embedded) * HALF).view(len(state.mask), -1, x.size(2))  # [B, W · T, D]
        scores = query @ state.keys.transpose(1, 2)
        weights = scores.masked_fill(~state.mask[:, None], -torch.inf).softmax(-1)
        if (hook := self.attention_weights_hook) is not None:
            hook(weights[:, None])
        context = self.output(weights @ state.values)
        return (x + context.view_as(x)) * HALF


class DecoderBlock(nn.Module):
    """A convolution of a token with those before it, then attention to the source."""

    def __init__(self, settings: ModelSettings, layer: int) -> None:
        super().__init__()
        self.convolution, self.dropout = GatedConvolution(settings, layer), nn.Dropout(settings.dropout)
        self.attention = MultiStepAttention(settings.d_model)

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        past: Float[Tensor, "R P D"],
        embedded: Float[Tensor, "R T D"],
        state: ConvolutionalState,
    ) -> tuple[Float[Tensor, "R T D"], Float[Tensor, "R P D"]]:
        """The next layer's x, and the last P inputs of this one."""
        inputs = torch.cat([past, self.dropout(x)], 1)
        y = self.attention(self.convolution(inputs), embedded, state)
        return (x + y) * HALF, inputs[:, x.size(1) :]


class Convolutional(Model):
    """Encoder and decoder of convolutions, with linear maps before and after them (section 3.2).

    It uses the settings `d_model`, the two depths, `kernel_width`, `dilated`, `dropout`, `tied` and those of
    positions. Sinusoids are made as small as learned positions. The linear maps whose inputs are dropped,
    those of the embeddings, have an initial variance of 1 / d_model; section 3.5 has (1 - P_drop) / d_model.
    Raises `DragomanError` for tied embeddings of different vocabularies.
    """

    def __init__(self, settings: ModelSettings, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.settings, width = settings, settings.d_model
        self.target_embedding, self.source_embedding, self.output = make_embeddings(
            settings, source_vocabulary, target_vocabulary, EMBEDDING_STD
        )
        self.longest_source = self.longest_target = settings.longest
        self.source_positions, self.target_positions = Positions(settings), Positions(settings)
        if settings.positions == "learned":
            for positions in (self.source_positions, self.target_positions):
                nn.init.normal_(positions.table, std=EMBEDDING_STD)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder_input, self.encoder_output = initialised(width, width), initialised(width, width)
        self.decoder_input, self.decoder_output = initialised(width, width), initialised(width, width)
        self.encoder = nn.ModuleList(EncoderBlock(settings, n) for n in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderBlock(settings, n) for n in range(settings.decoder_layers))

    def layers(self) -> list[tuple[nn.Module, list[str]]]:
        return [(block, []) for block in (*self.encoder, *self.decoder)]

    def embed(self, ids: Tensor, embedding: nn.Embedding, positions: Tensor) -> Float[Tensor, "B T D"]:
        """Embeddings plus positions [T D] (section 3.1)."""
        scale = 1.0 if self.settings.positions == "learned" else EMBEDDING_STD
        return self.dropout(embedding(ids) + scale * positions)

    def encode(self, source: Int[Tensor, "B S"]) -> ConvolutionalState:
        mask = source != PAD
        embedded = self.embed(source, self.source_embedding, self.source_positions(0, source.size(1)))
        x = self.encoder_input(embedded)
        for block in self.encoder:
            x = block(x, mask[:, :, None])
        keys = self.encoder_output(x)
        if keys.requires_grad:  # each attention adds two gradients, of keys and of values (section 3.4)
            keys.register_hook(lambda gradient: gradient / (2 * len(self.decoder)))
        scale = mask.sum(1)[:, None, None].sqrt()  # a mean of m values varies less than one (section 3.4)
        values = (keys + embedded) * HALF * scale
        reaches = [cast(DecoderBlock, block).convolution.reach for block in self.decoder]
        past = [embedded.new_zeros(len(source), reach, x.size(2)) for reach in reaches]
        return ConvolutionalState(mask, past, keys, values)

    def decode(
        self, target: Int[Tensor, "R T"], state: State
    ) -> tuple[Float[Tensor, "R T D"], ConvolutionalState]:
        assert isinstance(state, ConvolutionalState)
        positions = self.target_positions(state.length, target.size(1))
        embedded = self.embed(target, self.target_embedding, positions)
        x, past = self.decoder_input(embedded), []
        for block, before in zip(self.decoder, state.past, strict=True):
            x, after = block(x, before, embedded, state)
            past.append(after)
        features = self.dropout(self.decoder_output(x))
        return features, replace(state, past=past, length=state.length + target.size(1))

    def logits(self, features: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        return F.linear(features, self.output.weight)
