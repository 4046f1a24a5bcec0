"""Errors that the command line prints as a sentence: what was given, what was wanted, what to do."""

import math
from collections.abc import Mapping


class DragomanError(ValueError):
    """An error of the user's input. The command line prints its message without a traceback."""


class LongInput(UserWarning):
    """A sentence has more tokens than any source sentence of training; its translation may be worse."""


def check_bounds(
    settings: object,
    at_least: Mapping[str, float] | None = None,
    below: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
) -> None:
    """Compare values of settings, given by their names, with bounds. None is always allowed.

    Raises `DragomanError` with the name, the value and the bound.
    """
    for name, bound in (at_least or {}).items():
        value = getattr(settings, name)
        if value is not None and not bound <= value:
            raise DragomanError(f"{name} is {value}; it must be at least {bound}.")
        if value == math.inf:
            raise DragomanError(f"{name} is infinite; it must be a number.")
    for name, bound in (at_most or {}).items():
        value = getattr(settings, name)
        if value is not None and not value <= bound:
            raise DragomanError(f"{name} is {value}; it must be at most {bound:g}.")
    for name, bound in (below or {}).items():
        value = getattr(settings, name)
        if value is not None and not value < bound:
            raise DragomanError(f"{name} is {value}; it must be below {bound}.")
