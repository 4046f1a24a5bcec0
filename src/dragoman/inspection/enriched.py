"""What an enriched model computes for a translation (Domhan 2018): attention to the source, norms, features.

It is a Transformer with a recurrence or a convolution in the place of self-attention; the arrays of
self-attention are empty. Shapes: S source and T target tokens, R rows of a call of the decoder, H heads,
D = d_model.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.inspection.inspection import Array, Attention, ResidualStream
from dragoman.inspection.recording import (
    Recording,
    as_array,
    attentions,
    record_modules,
    residual_stream,
    row_of,
)
from dragoman.inspection.recurrent import empty
from dragoman.model.enriched import Enriched, EnrichedDecoderLayer, EnrichedEncoderLayer
from dragoman.model.transformer import Residual

ENCODER_PARTS = ("token_mixer", "feed_forward")
DECODER_PARTS = ("token_mixer", "cross_attention", "feed_forward")


def record_enriched(model: Enriched) -> AbstractContextManager[Recording]:
    """Record what the model computes while the context is open; equation 1 is computed as written."""
    return record_modules(attentions(model), watched(model))


def watched(model: Enriched) -> dict[str, nn.Module]:
    """The modules whose outputs are recorded.

    They are the sums of embedding and position (`embedding`), the layers (`encoder.0`), and what the
    sub-layers add to the residual stream (`encoder.0.token_mixer`): the output of their dropout.
    """
    modules: dict[str, nn.Module] = {"embedding": model.dropout}
    for name, module in model.named_modules():
        if isinstance(module, EnrichedEncoderLayer | EnrichedDecoderLayer):
            modules[name] = module
        elif isinstance(module, Residual):
            modules[name.removesuffix("_residual")] = module.dropout
    return modules


@dataclass(frozen=True)
class EnrichedParts:
    """What was recorded of an enriched model, along the translation."""

    model: Enriched
    recording: Recording
    rows: Sequence[int]
    """The translation's row in each call of the decoder that extended it."""

    def along(self, outputs: Sequence[Tensor]) -> Float[Tensor, "T D"]:
        """Of a decoder module's outputs [R 1 D], those of the translation."""
        return torch.stack([output[row, 0] for output, row in zip(outputs, self.rows, strict=False)])

    def attention(self, tokens: int) -> Attention:
        """The weights that the model multiplied by values for the translation."""
        cross = as_array(
            torch.stack(
                [
                    torch.stack([row_of(call, row) for call, row in zip(calls, self.rows, strict=False)], 1)
                    for calls in self.recording.weights.values()
                ]
            )
        )  # [N H T S]
        heads, source = cross.shape[1], cross.shape[3]
        return Attention(empty(0, heads, source, source), empty(0, heads, tokens, tokens), cross)

    def stream(self) -> ResidualStream:
        """Norms of the residual stream, and of what the sub-layers add to it."""
        layers = len(self.model.encoder), len(self.model.decoder)
        return residual_stream(self.recording.outputs, layers, self.along, ENCODER_PARTS, DECODER_PARTS)

    @torch.no_grad()
    def lens(self) -> list[Float[Tensor, "T D"]]:
        """What the output projection would read if the decoder ended after each of its layers."""
        outputs = self.recording.outputs
        layers = [self.along(outputs[f"decoder.{number}"]) for number in range(len(self.model.decoder))]
        return [self.model.decoder_norm(layer) for layer in layers]

    def positions(self, rows: int) -> Array:
        """The position table's first rows [rows D]."""
        return as_array(self.model.target_positions(0, rows))

    @torch.no_grad()
    def features(self) -> list[Float[Tensor, "R 1 D"]]:
        """What the output projection read in each call of the decoder."""
        last = self.recording.outputs[f"decoder.{len(self.model.decoder) - 1}"]
        return [self.model.decoder_norm(output) for output in last]
