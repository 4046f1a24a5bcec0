"""What a sentence says about a wrong setting: the nearest key, the value, the types that it may have."""

import dataclasses
import difflib
import types
import typing
from pathlib import Path
from typing import Any


def suggestion(key: str, settings: Any) -> str:
    """The key that is most like an unknown one, in whichever table, or all keys of these settings."""
    names = known_keys(settings)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {names[near[0]]}?"
    return f"There are: {', '.join(field.name for field in dataclasses.fields(settings))}."


def known_keys(settings: Any, table: str = "") -> dict[str, str]:
    """Every key of the settings, and of those within, with the way to write it."""
    names: dict[str, str] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        here = {field.name: f"{field.name!r} in the table [{table}]" if table else repr(field.name)}
        names |= known_keys(value, field.name) if dataclasses.is_dataclass(value) else here
    return names


def shown(value: Any) -> str:
    """A value as Python writes it, shortened."""
    try:
        written = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of nested lists
        return "too long to show"
    return written if len(written) <= 200 else written[:200] + "…"


def in_words(options: tuple[Any, ...]) -> str:
    """Types, of which a value may have any, in words."""
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a text in quotes",
        Path: "a path in quotes",
    }
    words = []
    for option in options:
        if typing.get_origin(option) is typing.Literal:
            words.append("one of " + ", ".join(repr(value) for value in typing.get_args(option)))
        elif typing.get_origin(option) is tuple:
            words.append("a list of texts in quotes")
        elif option is not types.NoneType:
            words.append(names.get(option, str(option)))
    return " or ".join(words)
