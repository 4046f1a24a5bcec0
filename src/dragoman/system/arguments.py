"""Arguments of functions that Python programs call: what is of a wrong type is refused by its name."""

import os
from pathlib import Path
from typing import Any

from dragoman.system.errors import DragomanError
from dragoman.system.toml import checked
from dragoman.system.wording import shown


def path_argument(name: str, value: object) -> Path:
    """A path. Raises `DragomanError` for anything else, and for a text that no path can be."""
    if not isinstance(value, str | os.PathLike):
        raise DragomanError(f"{name} is {shown(value)}; it has to be a path.")
    try:
        path = Path(value)
        if b"\0" in os.fsencode(path):
            raise ValueError
    except (TypeError, ValueError) as error:  # of bytes, and of halves of surrogate pairs
        raise DragomanError(f"{name} is {shown(value)}; no file can have this name.") from error
    return path


def check_argument(name: str, value: object, wanted: type) -> None:
    """Raise `DragomanError` for an argument that is neither of the wanted type nor None."""
    if not isinstance(value, wanted | None):
        raise DragomanError(
            f"{name} is {shown(value)}; it has to be a {wanted.__name__} of {wanted.__module__}."
        )


def argument(name: str, value: object, hint: Any) -> Any:
    """An argument of a type such as `int | None`. Raises `DragomanError` for another type."""
    return checked(value, hint, name)
