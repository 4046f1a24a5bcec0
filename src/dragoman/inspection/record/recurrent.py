"""What an LSTM or GRU computes for a translation: its attention, the norms of its states, its features.

It has no self-attention, positions, masks, residual stream or heads; their arrays are empty. Shapes: S source
and T target tokens, R rows of a call of the decoder, D = d_model, M = 2 D, N decoder layers.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.inspection.record.record import Array, AttentionWeights, ResidualStream
from dragoman.inspection.record.recording import Recording, as_array, norms, record_modules
from dragoman.model.recurrent import Recurrent

WATCHED = ("source_embedding", "target_embedding", "encoder", "attention", "start", "features")


def record_recurrent(model: Recurrent) -> AbstractContextManager[Recording]:
    """Record what the model computes while the context is open, by the names of its modules."""
    watched = {name: model.get_submodule(name) for name in WATCHED}
    watched |= {f"decoder.{number}": cell for number, cell in enumerate(model.decoder)}
    return record_modules({"attention": model.attention}, watched)


@dataclass(frozen=True)
class RecurrentParts:
    """What was recorded of an LSTM or GRU, along the translation."""

    model: Recurrent
    recording: Recording
    rows: Sequence[int]
    """The translation's row in each call of the decoder that extended it."""

    def along(self, outputs: Sequence[Tensor]) -> Float[Tensor, "T D"]:
        """Of a decoder module's outputs, [R D] or [R 1 D], those of the translation."""
        rows = zip(outputs, self.rows, strict=False)
        return torch.stack([output.reshape(-1, output.size(-1))[row] for output, row in rows])

    def attention(self, tokens: int) -> AttentionWeights:
        """The weights that were multiplied by the encoder's states, as one layer with one head."""
        calls = zip(self.recording.weights["attention"], self.rows, strict=False)
        cross = as_array(torch.stack([call.flatten(0, 2)[row] for call, row in calls]))  # [T S]
        source = cross.shape[1]
        return AttentionWeights(empty(0, 1, source, source), empty(0, 1, tokens, tokens), cross[None, None])

    def stream(self) -> ResidualStream:
        """Norms of the embeddings, of the encoder's last states, and of each decoder layer's states."""
        outputs = self.recording.outputs
        # One module can be both embeddings: it has read the source first.
        source, target = outputs["source_embedding"][0], outputs["target_embedding"]
        target = target[len(target) - len(outputs["features"]) :]
        encoder = norms([source[0]]), norms([outputs["encoder"][0][0]])
        decoder = [target, *(outputs[f"decoder.{number}"] for number in range(len(self.model.decoder)))]
        return ResidualStream(
            np.concatenate(encoder),
            empty(0, 2, encoder[0].shape[1]),
            norms([self.along(states) for states in decoder]),
            empty(0, 3, len(self.rows)),
        )

    def lens(self) -> tuple[()]:
        """Nothing: the output projection reads features of all layers at once."""
        return ()

    def positions(self, rows: int) -> Array:  # noqa: ARG002  no row is added to an embedding
        """Nothing: order is in the recurrence."""
        return empty(0, self.model.settings.d_model)

    def features(self) -> list[Tensor]:
        """What the output projection read in each call of the decoder [R D]."""
        return [torch.tanh(output) for output in self.recording.outputs["features"]]


def empty(*shape: int) -> Array:
    """An array of no numbers."""
    return np.zeros(shape, np.float32)
