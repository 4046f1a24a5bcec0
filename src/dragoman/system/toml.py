"""Dataclass ↔ TOML, strictly: a key that does not exist is an error that names the nearest one that does.

Settings check their types and bounds here, wherever they are from.
"""

import dataclasses
import functools
import math
import operator
import tomllib
import types
import typing
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from dragoman.system.errors import DragomanError, OptionError
from dragoman.system.files import atomic_write
from dragoman.system.keys import REMOVED, unknown_key
from dragoman.system.readers import MAX_INTEGER, check_toml, read_text
from dragoman.system.wording import in_words, shown

T = TypeVar("T")


@functools.cache  # settings are made for each request of a server
def type_hints(settings: Any) -> dict[str, Any]:
    """The types of the settings' fields by name."""
    return typing.get_type_hints(settings)


NUMBERS: dict[Any, Any] = {int: Integral, float: Real}  # numpy's are such, too
MAX_NUMBER = 2**31 - 1  # of settings without another bound: the largest index of 32 bits
UNIONS = (types.UnionType, typing.Union)  # X | None, and Literal[…] | None


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises `DragomanError` if it cannot be read or is not TOML."""
    text = read_text(path, encoding="utf-8-sig")
    check_toml(text, str(path))
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise DragomanError(f"{path} is not TOML: {error}.") from error


def section(table: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    """A table within the tables of a file. Raises `DragomanError` if it is missing."""
    inner = table.get(name)
    if not isinstance(inner, dict):
        raise DragomanError(f"{path} has no table [{name}]; it is not as a run writes it.")
    return inner


def overlay(settings: T, table: dict[str, Any], origin: str, root: Any = None) -> T:
    """The settings with the table's keys in place of their values; tables within become settings within.

    `root` are the settings of the whole file, if the table is one within.
    Raises `DragomanError` with `origin` and the key for an unknown key, a value of a wrong type or out of
    bounds.
    """
    assert dataclasses.is_dataclass(settings)
    assert not isinstance(settings, type)
    hints = type_hints(settings.__class__)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in hints:
            if key in REMOVED and value is REMOVED[key]:
                continue
            raise unknown_key(key, settings, origin, root or settings)
        place = f"{origin}: {key}"
        current = getattr(settings, key)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, dict):
                raise DragomanError(f"{place} is a table, and {shown(value)} is not.")
            values[key] = overlay(current, value, f"{origin} [{key}]", root or settings)
        else:
            values[key] = checked(value, hints[key], place)
    try:
        return dataclasses.replace(settings, **values)
    except ValueError as error:
        raise DragomanError(f"{origin}: {error}") from error


def flat_values(settings: Any, table: Mapping[str, Any], origin: str, root: Any = None) -> dict[str, Any]:
    """The values of a table, and of the tables within, by the names of the settings' fields.

    `root` are the settings of the whole file, if the table is one within. Bounds and rules are not checked:
    other settings may still be added. Raises `DragomanError` with `origin` and the key for an unknown key and
    a value of a wrong type.
    """
    hints = type_hints(settings.__class__)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in hints:
            raise unknown_key(key, settings, origin, root or settings)
        current = getattr(settings, key)
        if not dataclasses.is_dataclass(current):
            values[key] = checked(value, hints[key], f"{origin}: {key}")
        elif isinstance(value, dict):
            values |= flat_values(current, value, f"{origin} [{key}]", root or settings)
        else:
            raise DragomanError(f"{origin}: {key} is a table, and {shown(value)} is not.")
    return values


def from_table(kind: type[T], table: object, origin: str, is_complete: bool = False) -> T:
    """A dataclass from a parsed file whose keys are its fields: all that have no default, and no other.

    With `is_complete` the file has those with a default, too.
    Raises `DragomanError` with `origin` and the key for what is no table, for a missing or unknown key, and
    for a value of a wrong type or out of bounds.
    """
    if not isinstance(table, dict):
        raise DragomanError(f"{origin} is {shown(table)}; it has to be a table of names with their values.")
    settings = typing.cast(Any, kind)
    hints, fields = type_hints(settings), dataclasses.fields(settings)
    if unknown := [name for name in table if name not in hints]:
        raise DragomanError(
            f"{origin} has {shown(unknown[0])}, which this version of Dragoman does not know; it knows "
            f"{', '.join(hints)}."
        )
    required = [field.name for field in fields if is_complete or is_required(field)]
    if missing := [name for name in required if name not in table]:
        raise DragomanError(f"{origin} lacks {', '.join(missing)}; it is not as it was written.")
    values = {name: checked(value, hints[name], f"{origin}: {name}") for name, value in table.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise DragomanError(f"{origin}: {error}") from error


def is_required(field: "dataclasses.Field[Any]") -> bool:
    """Whether a field of a dataclass has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def check_types(settings: Any) -> None:
    """Check settings made in Python as those of a file; a list becomes a tuple.

    Raises `DragomanError` for a value of a wrong type.
    """
    for name, hint in type_hints(settings.__class__).items():
        object.__setattr__(settings, name, checked(getattr(settings, name), hint, name))


def check_bounds(
    settings: Any,
    at_least: Mapping[str, float] | None = None,
    below: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    above: Mapping[str, float] | None = None,
) -> None:
    """Check the types of settings, and compare numbers, given by their names, with bounds.

    A number without an upper bound is at most `MAX_NUMBER`. Raises `OptionError` with the name, the value and
    the bound, also for a number that is not finite, and as `check_types`.
    """
    check_types(settings)
    names = type_hints(settings.__class__)
    numbers = [name for name in names if type(getattr(settings, name)) in (int, float)]
    for name in numbers:
        if not math.isfinite(value := getattr(settings, name)):
            raise OptionError(f"{{{name}}} is {value}; it must be a finite number.")
    bounded = {*(below or {}), *(at_most or {})}
    at_most = {name: MAX_NUMBER for name in numbers if name not in bounded} | dict(at_most or {})
    comparisons = (
        (at_least, operator.ge, "at least {}"),
        (above, operator.gt, "above {}"),
        (at_most, operator.le, "at most {:.15g}"),
        (below, operator.lt, "below {}"),
    )
    for bounds, compare, words in comparisons:
        for name, bound in (bounds or {}).items():
            if name in numbers and not compare(value := getattr(settings, name), bound):
                raise OptionError(f"{{{name}}} is {value}; it must be {words.format(bound)}.")


def checked(value: Any, hint: Any, place: str) -> Any:
    """The value, called `place`, converted to the type. Raises `DragomanError` if it is of another type."""
    if type(value) is int and abs(value) > MAX_INTEGER:
        raise DragomanError(f"{place} is {shown(value)}; it has to be a number of at most 64 bits.")
    options = typing.get_args(hint) if typing.get_origin(hint) in UNIONS else (hint,)
    for option in options:
        if typing.get_origin(option) is not None:
            if (parts := _checked_parts(value, option, place)) is not None:
                return parts
        elif type(value) is option:
            return value
        elif option is Path and isinstance(value, str | Path) and value != "":  # which is no path
            return Path(value)
        elif option in NUMBERS and isinstance(value, NUMBERS[option]) and type(value) is not bool:
            return option(value)
    raise DragomanError(f"{place} is {shown(value)}; it has to be {in_words(options)}.")


def _checked_parts(value: Any, hint: Any, place: str) -> Any:
    """A value of a type with parts, such as `tuple[str, ...]`, converted; None if it is of another type.

    Raises `DragomanError` if a part is of a wrong type.
    """
    kind, parts = typing.get_origin(hint), typing.get_args(hint)
    if kind is typing.Literal:
        return value if any(isinstance(value, type(part)) and value == part for part in parts) else None
    if kind is dict and isinstance(value, dict):
        return {key: checked(item, parts[1], f"{place}.{key}") for key, item in value.items()}
    if kind is not tuple or not isinstance(value, list | tuple):
        return None
    part: Any = parts[0]
    if dataclasses.is_dataclass(part) and all(isinstance(item, dict) for item in value):
        if any(map(is_required, dataclasses.fields(part))):
            return tuple(from_table(typing.cast(Any, part), item, place) for item in value)
        return tuple(overlay(typing.cast(Any, part)(), item, place) for item in value)
    if part is Path:
        value = [Path(item) if isinstance(item, str) and item else item for item in value]
    return tuple(value) if all(isinstance(item, part) for item in value) else None


def to_table(settings: Any) -> dict[str, Any]:
    """The settings as nested tables, without what is None: TOML has no such value."""
    return dataclasses.asdict(settings, dict_factory=_table)


def _table(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """The values that are not None, by their names."""
    return {name: _plain(value) for name, value in items if value is not None}


def _plain(value: Any) -> Any:
    """A value as TOML has it."""
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def write_toml(settings: Any, path: Path) -> None:
    """Write the settings, all of them."""
    with atomic_write(path) as new:
        new.write_text(tomli_w.dumps(to_table(settings)), "utf-8")
