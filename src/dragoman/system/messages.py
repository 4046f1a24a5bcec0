"""Messages for people: who writes one calls a `Say` with a sentence."""

from collections.abc import Callable

Say = Callable[[str], None]


def silent(_: str) -> None:
    """A `Say` that shows nothing."""
