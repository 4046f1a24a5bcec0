"""Pictures of an enriched model are those of a Transformer without self-attention."""

from dragoman.system.errors import DragomanError

LACKING = ("encoder", "decoder", "masks", "numbers")


def check_view(view: str) -> None:
    """Raise `DragomanError` for a view of self-attention."""
    if view in LACKING:
        raise DragomanError(
            "This model has a recurrence or a convolution in the place of self-attention, and no view "
            f"{view!r}; ask for beam, cross, alignment, statistics, positions, distances, stream, lens, "
            "neurons or model."
        )
