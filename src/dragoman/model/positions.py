"""Positions (section 3.5): the paper's sinusoids, two other layouts of toolkits, a learned table."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.settings import ModelSettings, PositionKind
from dragoman.model.sinusoids import longer_than_table, sinusoid_table


def sinusoids(length: int, d_model: int, kind: PositionKind = "sinusoidal") -> Float[Tensor, "N D"]:
    """The table as a tensor. Raises `ValueError` for another kind."""
    return torch.from_numpy(sinusoid_table(length, d_model, kind))


class Positions(nn.Module):
    """Rows of a table to add to embeddings: sinusoids, extended when needed, or a learned table."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        self.kind: PositionKind = settings.positions
        self.d_model = settings.d_model
        self.first = 0 if self.kind == "learned" else settings.first_position
        self.table: Tensor
        if self.kind == "learned":
            self.table = nn.Parameter(
                torch.randn(settings.max_positions, settings.d_model) * settings.d_model**-0.5
            )
        else:
            self.register_buffer("table", sinusoids(256, settings.d_model, self.kind), persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "N D"]:
        """Positions `start` to `start + length - 1`.

        Raises `DragomanError` past the end of a learned table.
        """
        start += self.first
        end = start + length
        table = self.table  # other threads may make it longer
        if end > len(table):
            if self.kind == "learned":
                raise longer_than_table(end, len(table))
            table = sinusoids(2 * end, self.d_model, self.kind).to(self.table)
            self.table = table
        return table[start:end]
