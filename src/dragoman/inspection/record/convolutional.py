"""What ConvS2S computes for a translation: its attention, norms along its blocks, features.

It has no self-attention; those arrays are empty. Sections are of Gehring et al. 2017. Shapes: S source and T
target tokens, R rows of a call of the decoder, D = d_model, L encoder and N decoder layers.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.inspection.record.record import Array, AttentionWeights, ResidualStream
from dragoman.inspection.record.recording import Recording, as_array, norms, record_modules
from dragoman.inspection.record.recurrent import empty
from dragoman.model.convolutional import (
    EMBEDDING_STD,
    HALF,
    Convolutional,
    DecoderBlock,
    EncoderBlock,
    GatedConvolution,
    MultiStepAttention,
)
from dragoman.model.positions import Positions


def record_convolutional(model: Convolutional) -> AbstractContextManager[Recording]:
    """Record what the model computes while the context is open."""
    attentions = {
        name: module for name, module in model.named_modules() if isinstance(module, MultiStepAttention)
    }
    return record_modules(attentions, watched(model))


def watched(model: Convolutional) -> dict[str, nn.Module]:
    """The modules whose outputs are recorded.

    They are the embeddings, positions and linear maps before and after the blocks, the blocks (`encoder.0`),
    their convolutions (`encoder.0.convolution`), and the contexts of attention (`decoder.0.attention`).
    """
    kinds = nn.Embedding | Positions | EncoderBlock | DecoderBlock | GatedConvolution
    maps = ("encoder_input", "encoder_output", "decoder_input", "decoder_output")
    modules = {
        name: module for name, module in model.named_modules() if isinstance(module, kinds) or name in maps
    }
    for number, block in enumerate(model.decoder):
        modules[f"decoder.{number}.attention"] = block.get_submodule("attention.output")
    return modules


@dataclass(frozen=True)
class ConvolutionalParts:
    """What was recorded of a ConvS2S, along the translation."""

    model: Convolutional
    recording: Recording
    rows: Sequence[int]
    """The translation's row in each call of the decoder that extended it."""

    def along(self, name: str) -> Float[Tensor, "T D"]:
        """Of the outputs of a module of the decoder, [R 1 D] or [1 R D], those of the translation."""
        calls = zip(self.recording.outputs[name], self.rows, strict=False)
        return torch.stack([output.flatten(0, 1)[row] for output, row in calls])

    def attention(self, tokens: int) -> AttentionWeights:
        """The weights that were multiplied by the values, one head in each decoder layer."""
        cross = as_array(
            torch.stack(
                [
                    torch.stack(
                        [call.flatten(0, 2)[row] for call, row in zip(calls, self.rows, strict=False)]
                    )
                    for calls in self.recording.weights.values()
                ]
            )
        )  # [N T S]
        source = cross.shape[2]
        return AttentionWeights(empty(0, 1, source, source), empty(0, 1, tokens, tokens), cross[:, None])

    def stream(self) -> ResidualStream:
        """Norms of the input of the first block, of each block's output, and of what its parts add.

        A block's output is √0.5 times the sum of its input and of what its parts add. In the decoder these
        are √0.5 times the output of the convolution and the context.
        """
        outputs = self.recording.outputs
        encoder = [f"encoder.{number}" for number in range(len(self.model.encoder))]
        decoder = [f"decoder.{number}" for number in range(len(self.model.decoder))]
        parts = [[self.along(f"{name}.{part}") for part in ("convolution", "attention")] for name in decoder]
        return ResidualStream(
            norms([outputs[name][0][0] for name in ("encoder_input", *encoder)]),
            norms([outputs[f"{name}.convolution"][0][0] for name in encoder])[:, None],
            norms([self.along(name) for name in ("decoder_input", *decoder)]),
            np.stack([norms([HALF * part for part in pair]) for pair in parts]),
        )

    @torch.no_grad()
    def lens(self) -> list[Float[Tensor, "T D"]]:
        """What the output projection would read if the decoder ended after each of its layers."""
        layers = [self.along(f"decoder.{number}") for number in range(len(self.model.decoder))]
        return [self.model.decoder_output(layer) for layer in layers]

    def positions(self, rows: int) -> Array:
        """The first rows that are added to embeddings [rows D]; sinusoids are made small."""
        scale = 1.0 if self.model.settings.positions == "learned" else EMBEDDING_STD
        return as_array(scale * self.model.target_positions(0, rows))

    def features(self) -> list[Float[Tensor, "R 1 D"]]:
        """What the output projection read in each call of the decoder."""
        return self.recording.outputs["decoder_output"]
