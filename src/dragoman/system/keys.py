"""Keys that settings do not have, and the nearest key to a misspelt one."""

import dataclasses
import difflib
from typing import Any

from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown

REMOVED = {"compile": False, "strip_carriage_returns": False}
"""Settings that no longer exist, with the value that has no effect: recorded recipes have them."""


def unknown_key(key: object, settings: Any, origin: str, root: Any) -> DragomanError:
    """The error of a table's key that the settings do not have, with `origin` and the nearest key.

    `root` are the settings of the whole file, in which the key may have another place.
    """
    names, places = all_keys(settings), all_keys(root)
    matches = difflib.get_close_matches(str(key), names, n=1, cutoff=0.6)
    field_names = [field.name for field in dataclasses.fields(settings)]
    hint = f"Did you mean {names[matches[0]]}?" if matches else f"There are: {', '.join(field_names)}."
    if isinstance(key, str) and key in places and settings is not root:
        is_at_top = places[key] == repr(key)
        hint = f"Did you mean {places[key]}{' at the top of the file' if is_at_top else ''}?"
    return DragomanError(f"{origin}: there is no key {shown(key)}. {hint}")


def all_keys(settings: Any, table: str = "") -> dict[str, str]:
    """Every key of the settings, and of those within, with the way to write it."""
    names: dict[str, str] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        entry = {field.name: f"{field.name!r} in the table [{table}]" if table else repr(field.name)}
        names |= all_keys(value, field.name) if dataclasses.is_dataclass(value) else entry
    return names
