"""Which part of a model a figure shows."""

from dataclasses import dataclass

from dragoman.inspection.record.kinds import Kind


@dataclass(frozen=True)
class Choice:
    """The parts of a model that a figure shows, as the user gives them; None or empty is the default."""

    layer: int | None = None
    heads: tuple[int, ...] = ()
    query: str | None = None
    step: int | None = None
    kind: Kind = "encoder"
    """The attention that the paper's Figures 3 to 5 show; there it is encoder self-attention."""
