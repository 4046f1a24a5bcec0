"""Positions (section 3.5): the paper's sinusoids, the two other layouts that toolkits use, and a learned table."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import DragomanError
from dragoman.model.settings import ModelSettings, PositionKind


def sinusoids(length: int, d_model: int, kind: PositionKind = "sinusoidal") -> Float[Tensor, "N D"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)), pos from 0.

    - `sinusoidal`: the formula; sine and cosine alternate.
    - `sinusoidal-halves`: the same numbers, all sines before all cosines (Hugging Face Marian, Sockeye).
    - `sinusoidal-tensor2tensor`: in halves, and the wavelengths end at exactly 10000 · 2π, which makes every step of the
      progression a little longer than the formula's (Tensor2Tensor, fairseq, Marian).

    Computed in float64. Raises `ValueError` for another kind.
    """
    half = (d_model + 1) // 2
    pairs = torch.arange(half, dtype=torch.float64)
    if kind == "sinusoidal-tensor2tensor":
        rates = torch.exp(pairs * (-math.log(10000) / max(half - 1, 1)))
    elif kind in ("sinusoidal", "sinusoidal-halves"):
        rates = torch.exp(pairs * (-math.log(10000) * 2 / d_model))
    else:
        raise ValueError(f"There are no sinusoids of the kind {kind!r}.")
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    sine, cosine = angles.sin(), angles.cos()
    if kind == "sinusoidal":
        return torch.stack([sine, cosine], -1).flatten(1)[:, :d_model].float()
    return torch.cat([sine, cosine[:, : d_model // 2]], -1).float()


class Positions(nn.Module):
    """Rows of a table to add to embeddings. Sinusoids are made as far as they are needed; a learned table has an end."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.kind: PositionKind = settings.positions
        self.d_model = settings.d_model
        self.first = 0 if self.kind == "learned" else settings.first_position
        self.table: Tensor
        if self.kind == "learned":
            self.table = nn.Parameter(torch.randn(settings.max_positions, settings.d_model) * settings.d_model**-0.5)
        else:
            self.register_buffer("table", sinusoids(256, settings.d_model, self.kind), persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "N D"]:
        """Positions `start` to `start + length - 1`. Raises `DragomanError` past the end of a learned table."""
        start += self.first
        end = start + length
        table = self.table  # other threads may make it longer
        if end > len(table):
            if self.kind == "learned":
                raise DragomanError(
                    f"A text of {end} tokens is longer than the {len(self.table)} positions that this model has learned; "
                    "split the text, or train with a larger max_positions."
                )
            table = sinusoids(2 * end, self.d_model, self.kind).to(self.table)
            self.table = table
        return table[start:end]
