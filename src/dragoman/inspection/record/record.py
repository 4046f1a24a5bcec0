"""The data of an inspection: everything that was computed for one translation, as numpy arrays.

Shapes: S source and T target tokens, END included; L encoder and N decoder layers, H heads, D = d_model.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dragoman.inspection.record.kinds import Kind
from dragoman.inspection.record.masks import Masks
from dragoman.inspection.record.neighbours import Neighbours
from dragoman.inspection.record.neurons import Neurons
from dragoman.inspection.record.projected import Projections
from dragoman.model.settings import ModelSettings
from dragoman.search.settings import SearchSettings
from dragoman.search.trace import Node

if TYPE_CHECKING:
    from dragoman.inspection.analyse.ablation import HeadEffects
    from dragoman.inspection.analyse.attribution import Attribution
    from dragoman.inspection.analyse.value_zeroing import ValueZeroing
    from dragoman.inspection.what_if import WhatIf
    from dragoman.training.curves import Training

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TokenProbability:
    """A token that the model considered, and its log-probability in nats."""

    token: str
    log_probability: float


@dataclass(frozen=True)
class AttentionWeights:
    """The attention weights that were multiplied by the values (equation 1)."""

    encoder: Array
    """Encoder self-attention [L H S S]."""
    decoder: Array
    """Decoder self-attention [N H T T]. Row t is the query that predicts target token t; its keys are START
    and the t tokens before it. Later columns are 0."""
    cross: Array
    """Encoder-decoder attention [N H T S]."""

    def of(self, kind: Kind) -> Array:
        """The weights of a kind."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]


@dataclass(frozen=True)
class ResidualStream:
    """Euclidean norms along the stack, by position."""

    encoder: Array
    """Of the embedded source, in ConvS2S after its linear map, and of each encoder layer's output [L+1 S]."""
    encoder_sublayers: Array
    """Of what self-attention and the feed-forward network add in each layer [L 2 S]; of ConvS2S, what the
    convolution adds [L 1 S]."""
    decoder: Array
    """As `encoder`, of the decoder [N+1 T]."""
    decoder_sublayers: Array
    """Of self-attention, encoder-decoder attention and the feed-forward network [N 3 T]; of ConvS2S, of the
    convolution and of attention [N 2 T]."""


@dataclass(frozen=True)
class ModuleSummary:
    """A part of the model: its parameters and the shape of its output in this call."""

    name: str
    """As PyTorch names it: `encoder.0.self_attention`."""
    parameters: int
    """Numbers in its weights; 0 for weights that another part has, too."""
    shape: tuple[int, ...]
    code: str = ""
    """The class or method that computes it: `dragoman.model.attention.MultiHeadAttention`."""
    definition: str = ""
    """What its docstring says first, with the section of the paper; "" for PyTorch's own."""


@dataclass(frozen=True)
class ForcedWords:
    """What a hypothesis of grid beam search has met of the forced words."""

    tokens: int
    """Forced tokens, also those of a phrase that it has begun: the number of its beam."""
    words: tuple[str, ...]
    """The forced words that it contains."""


@dataclass(frozen=True)
class Origin:
    """Which model was inspected, when, and with which version of Dragoman."""

    model: str
    """The name of the run's folder, or the one under which a server has the model; "" for one in memory."""
    source: str
    """The code of the language that it reads; `und` if it is unknown."""
    target: str
    date: str = field(compare=False)
    """ISO 8601, in UTC."""
    version: str


@dataclass(frozen=True)
class Record:
    """What a model computed while it translated a sentence.

    An LSTM or GRU has one layer and head of encoder-decoder attention. It has none of `attention.encoder`,
    `attention.decoder`, the sub-layers of `stream`, `lens` and `positions`: their first axis is 0.

    ConvS2S has encoder-decoder attention with one head in each layer. It has none of `attention.encoder` and
    `attention.decoder`.
    """

    sentence: str
    translation: str
    log_probability: float
    """Of the translation, in nats."""
    score: float
    """What the search ranks by: the log-probability over the length penalty."""
    search: SearchSettings
    model: ModelSettings
    source: tuple[str, ...]
    """The S source tokens."""
    target: tuple[str, ...]
    """The T target tokens of the translation."""
    source_words: tuple[int, ...]
    """The number of each source token's word; END is a word of its own."""
    target_words: tuple[int, ...]
    nodes: tuple[Node, ...]
    """All hypotheses of the search; of a beam search as `Translator.trace` gives them."""
    best_path: tuple[int, ...]
    """The numbers of the nodes of the translation, from the empty hypothesis to END."""
    candidates: dict[int, tuple[TokenProbability, ...]]
    """For each node that was extended: the likeliest next tokens."""
    attention: AttentionWeights
    alignment: tuple[tuple[int, int], ...]
    """Word alignment (source, target), counted from 0, as `Translator.align` reads it from attention."""
    stream: ResidualStream
    lens: tuple[tuple[tuple[TokenProbability, ...], ...], ...]
    """For each decoder layer and target token: the likeliest tokens if the stack ended there (logit lens)."""
    positions: Array
    """The position table's rows 0 to max(S, T) − 1 [max(S, T) D]: the target's. The source has the same one,
    unless positions are learned."""
    modules: tuple[ModuleSummary, ...]
    projections: Projections | None = None
    """Queries, keys and values of all heads; None without scaled dot-product attention to all positions."""
    drawn: dict[int, tuple[TokenProbability, ...]] = field(default_factory=dict)
    """Sampling: for each node that was extended, the distribution that its next tokens were drawn from (with
    temperature, top-k and top-p): the likeliest tokens, and all that were drawn."""
    met: tuple[ForcedWords, ...] = ()
    """Grid beam search: for each node, what it has met of the forced words."""
    what_ifs: tuple["WhatIf", ...] = ()
    """Recorded cases: the sentence inspected again with changes."""
    source_ids: tuple[int, ...] = ()
    """The numbers of the source tokens in the vocabulary."""
    target_ids: tuple[int, ...] = ()
    neighbours: tuple[Neighbours, ...] = ()
    """The nearest tokens of the source's and the target's tokens, for each matrix of embeddings."""
    masks: Masks | None = None
    """Those that attention was given; None without self-attention."""
    neurons: Neurons | None = None
    """The activations of the feed-forward sub-layers' hidden units; None if the model has no such
    sub-layers."""
    head_effects: "HeadEffects | None" = None
    """What each head contributes to the translation's log-probability; None if it was not asked for."""
    attribution: "Attribution | None" = None
    """What each token contributes to each target token; None if it was not asked for."""
    value_zeroing: "ValueZeroing | None" = None
    """How much each attention mixes each token into the others; None if it was not asked for."""
    training: "Training | None" = None
    """What the log of the model's run says; None if it is unknown."""
    origin: Origin | None = None

    @property
    def decoder_inputs(self) -> tuple[str, ...]:
        """The T tokens that the decoder reads: START, and the target without its last token."""
        return (self.nodes[0].token, *self.target[:-1])
