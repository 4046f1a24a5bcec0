"""Numbers and settings in sentences."""

import dataclasses
import reprlib
import types
import typing
from pathlib import Path
from typing import Any


def counted(count: int, noun: str) -> str:
    """`1 pair` or `2,000 pairs`."""
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


BRIEF = reprlib.Repr()  # aliases of YAML make huge lists within lists from a few bytes
BRIEF.maxlevel, BRIEF.maxstring, BRIEF.maxother, BRIEF.maxlong = 3, 1000, 1000, 1000


def shown(value: Any) -> str:
    """A value as Python writes it, shortened."""
    try:
        text = BRIEF.repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of nested lists
        return "too long to show"
    return text if len(text) <= 200 else text[:200] + "…"


def in_words(options: tuple[Any, ...]) -> str:
    """The types that a value may have, in words."""
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
        elif typing.get_origin(option) is dict:
            words.append("a table of names with their values")
        elif any(map(dataclasses.is_dataclass, typing.get_args(option))):
            words.append("a list of tables")
        elif typing.get_origin(option) is tuple:
            words.append("a list of texts in quotes")
        elif option is not types.NoneType:
            words.append(names.get(option, str(option)))
    return " or ".join(words)
