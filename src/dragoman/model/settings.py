"""Settings of a model. The defaults are the paper's base model (Table 3). This module imports no torch."""

from dataclasses import dataclass, replace
from typing import Literal

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.options import Excludes, OnlyWith, check_values, option

Architecture = Literal["transformer", "lstm", "gru", "conv", "lstm-enriched", "gru-enriched", "conv-enriched"]
Activation = Literal["relu", "gelu", "swish"]
Precision = Literal["float32", "bfloat16", "int8"]
PositionKind = Literal["sinusoidal", "sinusoidal-halves", "sinusoidal-tensor2tensor", "learned", "none"]

ENRICHED = ("lstm-enriched", "gru-enriched", "conv-enriched")
OF_TRANSFORMERS = OnlyWith("architecture", ("transformer",))
OF_MULTI_HEAD_ATTENTION = OnlyWith("architecture", ("transformer", *ENRICHED))
OF_CONVOLUTIONS = OnlyWith("architecture", ("conv", "conv-enriched"))
OF_RECURRENCE = OnlyWith("architecture", ("lstm", "gru"))
NOT_OF_CONV = OnlyWith("architecture", ("transformer", "lstm", "gru", *ENRICHED))
NOT_OF_RECURRENCE = OnlyWith("architecture", ("transformer", "conv", *ENRICHED))
MAX_WIDTH, MAX_LAYERS, MAX_POSITIONS, MAX_FIRST_POSITION = 2**16, 2**10, 2**20, 2**10


@dataclass(frozen=True)
class ModelSettings:
    """Sizes and variants of a model. Widths are numbers of features, depths are numbers of layers.

    Training takes sizes and dropout that are not given from its preset. Raises `DragomanError` if values are
    out of bounds.
    """

    architecture: Architecture = "transformer"
    """The paper's Transformer, or a baseline: LSTM or GRU with attention, or ConvS2S.

    An enriched one is a Transformer with such a layer in place of self-attention (Domhan 2018).
    """
    d_model: int = option(512, at_least=1, at_most=MAX_WIDTH)
    """Width of embeddings and of every sub-layer's output (section 3.1)."""
    d_ff: int = option(2048, at_least=1, at_most=MAX_WIDTH)
    """Width inside the feed-forward sub-layer (section 3.3)."""
    decoder_d_ff: int | None = option(None, OF_MULTI_HEAD_ATTENTION, at_least=1, at_most=MAX_WIDTH)
    """The same in the decoder; None is d_ff. A smaller value makes decoding faster."""
    heads: int = option(8, at_least=1, at_most=MAX_WIDTH)
    """Number of attention heads, the paper's h (section 3.2.2)."""
    d_k: int | None = option(None, OF_MULTI_HEAD_ATTENTION, at_least=1, at_most=MAX_WIDTH)
    """Width of a head's queries and keys; None is d_model / heads (Table 3, row B, sets it)."""
    d_v: int | None = option(None, OF_MULTI_HEAD_ATTENTION, at_least=1, at_most=MAX_WIDTH)
    """Width of a head's values; None is d_model / heads."""
    encoder_layers: int = option(6, at_least=1, at_most=MAX_LAYERS)
    """Depth of the encoder, the paper's N."""
    decoder_layers: int = option(6, at_least=1, at_most=MAX_LAYERS)
    """Depth of the decoder, the paper's N."""
    kernel_width: int = option(3, OF_CONVOLUTIONS, at_least=1, at_most=MAX_LAYERS)
    """Positions that a convolution of ConvS2S reads, the k of Table 1."""
    dilated: bool = option(False, OF_CONVOLUTIONS)
    """Dilate the kernels of ConvS2S: their inputs are 1, 2, 4, 8 and 16 steps apart in successive layers, as
    in ByteNet."""
    dropout: float = option(0.1, at_least=0, below=1)
    """P_drop, of each sub-layer's output and of the sums of embeddings and positions (section 5.4)."""
    attention_dropout: float = option(0.0, OF_MULTI_HEAD_ATTENTION, at_least=0, below=1)
    """Dropout on attention weights. Section 5.4 has none; the paper's parsers have it (6.3)."""
    positions: PositionKind = option("sinusoidal", NOT_OF_RECURRENCE)
    """The paper's sinusoids (section 3.5), two layouts of toolkits, a learned table (row E), or none."""
    concatenate_positions: bool = option(False, OF_TRANSFORMERS)
    """Concatenate embeddings and positions, and map both to d_model, instead of adding them."""
    max_positions: int = option(1024, at_least=1, at_most=MAX_POSITIONS)
    """Rows of the learned table. Sinusoids have no limit."""
    first_position: int = option(0, NOT_OF_RECURRENCE, at_least=0, at_most=MAX_FIRST_POSITION)
    """The number of the first position in the sinusoids: 0 as in the authors' code; fairseq counts from 2."""
    decoder_start: Literal["start", "end"] = option("start", OF_TRANSFORMERS)
    """What the decoder reads before the first target token: START, a symbol of its own, or END, as in
    fairseq.

    The paper does not say which. Other toolkits call the two symbols BOS and EOS.
    """
    source_end: bool = option(True, OF_TRANSFORMERS)
    """Attend to the END of the source. The authors' code attends to it; OpenNMT-py does not."""
    norm: Literal["post", "pre", "batch", "none"] = option("post", OF_MULTI_HEAD_ATTENTION)
    """Layer normalisation after the residual sum as in the paper, or before the sub-layer; batch
    normalisation after the sum; or none."""
    norm_epsilon: float = option(1e-5, OF_MULTI_HEAD_ATTENTION, at_least=0, at_most=1)
    """The epsilon of layer normalisation. The paper does not give it; several toolkits have 1e-6."""
    activation: Activation = option("relu", OF_MULTI_HEAD_ATTENTION)
    """The function inside the feed-forward sub-layer (equation 2 has max(0, x))."""
    residual: bool = option(True, OF_MULTI_HEAD_ATTENTION)
    """Use residual connections around the sub-layers (section 3.1)."""
    attention_score: Literal["scaled-dot", "dot", "general", "additive"] | None = option(None, NOT_OF_CONV)
    """What compares a query with a key: q · k / √d_k (equation 1), q · k, qᵀ W k, or vᵀ tanh(q + k).

    None is the architecture's own score: additive for an LSTM or GRU, else scaled-dot. For an LSTM or GRU,
    scaled-dot means additive, because earlier recipes have it for every architecture.
    """
    input_feeding: bool = option(False, OF_RECURRENCE)
    """The decoder of an LSTM or GRU also reads its last attentional vector (Luong et al. 2015)."""
    neighbourhood: int | None = option(
        None,
        OF_TRANSFORMERS,
        Excludes(("attention_score",), "restricted self-attention has scaled dot products"),
        at_least=2,
        at_most=MAX_POSITIONS,
    )
    """Restrict self-attention to this even number of positions around a query, half on each side (section 4:
    r), and to the query's own."""
    decoder_mixer: Literal["self-attention", "ssru"] = option(
        "self-attention", OF_TRANSFORMERS, Excludes(("neighbourhood",), "a recurrence reads the whole prefix")
    )
    """Through what a target token sees those before it: masked self-attention, or a simpler simple recurrent
    unit (Kim et al. 2019), which Marian's small models have. Only PyTorch computes the latter."""
    attention_bias: bool = option(False, OF_MULTI_HEAD_ATTENTION)
    """Add biases to the four projections of attention. The paper has none."""
    output_bias: bool = option(False, OF_TRANSFORMERS)
    """Add a bias to the logits. The paper has none."""
    tied: Literal["all", "target", "none"] = "all"
    """Which of the two embeddings and the output projection share one matrix (section 3.4).

    Two vocabularies need "target" or "none".
    """
    scale_embeddings: bool = option(True, OF_MULTI_HEAD_ATTENTION)
    """Multiply embeddings by the square root of d_model (section 3.4)."""
    alignment_head: int | None = option(None, OF_MULTI_HEAD_ATTENTION, at_least=1)
    """The head of the last decoder layer that a guided alignment guides, and that alignments and tags are
    read from; counted from 1. None is 1 with `guided_alignment`, and otherwise the mean of all heads."""

    def __post_init__(self) -> None:
        check_values(self)  # `check_architecture` checks the rules, once preset and recipe are one
        if self.alignment_head is not None and self.alignment_head > self.heads:
            raise OptionError(
                f"{{alignment_head}} is {self.alignment_head}; it must be at most {self.heads}."
            )
        if self.attention_score == "scaled-dot":
            object.__setattr__(self, "attention_score", None)

    @property
    def key_width(self) -> int:
        """d_k. Raises `DragomanError` if it is None and the heads do not divide d_model."""
        return self._head_width() if self.d_k is None else self.d_k

    @property
    def value_width(self) -> int:
        """d_v. Raises as `key_width`."""
        return self._head_width() if self.d_v is None else self.d_v

    def check_head_widths(self) -> None:
        """Raise `DragomanError` if d_k or d_v is None and the heads do not divide d_model."""
        if self.d_k is None or self.d_v is None:
            self._head_width()

    @property
    def variants(self) -> list[str]:
        """Names of the settings whose values model/variants.py implements; only PyTorch computes these."""
        names = (
            *("concatenate_positions", "residual", "attention_score", "neighbourhood", "decoder_mixer"),
            "decoder_start",
        )
        changed = [name for name in names if getattr(self, name) != getattr(ModelSettings, name)]
        values = {"positions": self.positions == "none", "norm": self.norm in ("batch", "none")}
        return changed + [name for name, varies in values.items() if varies]

    @property
    def longest(self) -> int | None:
        """Tokens, END included, of the longest text that the model has positions for. None is no limit."""
        return self.max_positions if self.positions == "learned" else None

    def check_vocabularies(self, source: int, target: int) -> None:
        """Raise `DragomanError` if embeddings are tied for different vocabularies, of these sizes."""
        if self.tied == "all" and source != target:
            raise DragomanError(
                f"Three-way tied embeddings need one vocabulary, and these are two, of {source} and {target} "
                'tokens; share the vocabulary, or set tied = "target".'
            )

    def _head_width(self) -> int:
        if self.d_model % self.heads:
            raise OptionError(
                f"{{d_model}} {self.d_model} does not divide into {self.heads} heads; choose another number "
                "of heads, or set {d_k} and {d_v}."
            )
        return self.d_model // self.heads


SMALL = ModelSettings(d_model=256, d_ff=1024, heads=4, encoder_layers=3, decoder_layers=3)
PRESETS = {
    "tiny": ModelSettings(d_model=128, d_ff=512, heads=4, encoder_layers=3, decoder_layers=3, norm="pre"),
    "small": replace(SMALL, norm="pre"),
    "base": ModelSettings(),
    "big": ModelSettings(d_model=1024, d_ff=4096, heads=16, dropout=0.3),
    "rnn": ModelSettings("lstm", d_model=256, encoder_layers=2, decoder_layers=2),
    "conv": ModelSettings("conv", d_model=256, encoder_layers=4, decoder_layers=3, positions="learned"),
    "rnn-enriched": replace(SMALL, architecture="lstm-enriched", positions="none"),
    "conv-enriched": replace(SMALL, architecture="conv-enriched"),
    "restricted": replace(SMALL, neighbourhood=16),
    "student": ModelSettings(d_model=256, d_ff=1024, decoder_d_ff=256, decoder_layers=2),
    "student-tiny": ModelSettings(d_model=192, d_ff=384, encoder_layers=12, decoder_layers=1),
}
"""`base` and `big` are the paper's (Table 3); the others are for CPUs. `tiny` and `small` have pre-norm, with
which they learn faster in few minutes (experiments/LOG.md). `conv` has the sizes of fairseq's
ConvS2S for IWSLT. The three after it are `small` with post-norm, and with another sub-layer than
self-attention to all positions. The students have deep encoders and shallow decoders (Kasai et al. 2021);
`distil` scales their widths, which are those beside a teacher of the size of `base`."""
