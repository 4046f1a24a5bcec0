"""Keys that settings do not have: former names, and the nearest key to a misspelt one."""

import dataclasses
import difflib
import typing
import warnings
from typing import Any

from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown

FORMER = "former name"
REMOVED = {"compile": False}
"""Settings that were removed, with their default, which recipes of earlier releases may still have."""


class RenamedSetting(UserWarning):
    """A setting was given by its former name."""


def former_name(name: str) -> dict[str, str]:
    """Metadata of a field that had another name in an earlier release, by which it may still be given."""
    return {FORMER: name}


def former_names(settings: type) -> dict[str, str]:
    """The former names of the settings' fields, and of those in tables within, with their names of today."""
    names: dict[str, str] = {}
    for field, hint in zip(
        dataclasses.fields(settings), typing.get_type_hints(settings).values(), strict=True
    ):
        names |= former_names(hint) if dataclasses.is_dataclass(hint) else {}  # type: ignore[arg-type]
        names |= {field.metadata[FORMER]: field.name} if FORMER in field.metadata else {}
    return names


def known_key(given: str, settings: Any, table: dict[str, Any], origin: str) -> str:
    """The name of today of a table's key that the settings do not have; warns with `RenamedSetting`.

    Raises `DragomanError` with `origin` and the key if it is no former name, or if the table has both names.
    """
    here = [field.name for field in dataclasses.fields(settings)]
    key = former_names(type(settings)).get(given, given)
    if key not in here:
        names = all_keys(settings)
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
        hint = f"Did you mean {names[near[0]]}?" if near else f"There are: {', '.join(here)}."
        raise DragomanError(f"{origin}: there is no key {shown(given)}. {hint}")
    if key in table:
        raise DragomanError(f"{origin}: {given} and {key} are the same setting; give one of them.")
    warnings.warn(
        f"{origin}: {given} is now called {key}; the former name works until the next release.",
        RenamedSetting,
        stacklevel=3,
    )
    return key


def all_keys(settings: Any, table: str = "") -> dict[str, str]:
    """Every key of the settings, and of those within, with the way to write it."""
    names: dict[str, str] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        here = {field.name: f"{field.name!r} in the table [{table}]" if table else repr(field.name)}
        names |= all_keys(value, field.name) if dataclasses.is_dataclass(value) else here
    return names
