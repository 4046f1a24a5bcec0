"""Texts that a program gives: what is one, and what is refused. This module imports no torch."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Protocol, runtime_checkable

from dragoman.system.errors import DragomanError
from dragoman.system.wording import shown


@runtime_checkable
class DataFrame(Protocol):
    """A data frame of pandas or polars, known by what it offers: neither is imported."""

    @property
    def columns(self) -> Iterable[object]:
        """The names of the columns."""
        ...

    def __getitem__(self, column: str, /) -> Iterable[object]: ...


def iterable_of_texts(texts: object) -> Iterable[object]:
    """What may have texts.

    Raises `DragomanError` for one text, a table, a set, a data frame, whose iterator may give the names of
    its columns, and what is no iterable.
    """
    if isinstance(texts, DataFrame):
        raise DragomanError(
            f"Texts are wanted; a {type(texts).__name__} was given. Choose one of its columns: "
            f"{', '.join(map(shown, texts.columns))}."
        )
    if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
        raise DragomanError(f"Texts are wanted, in a list for instance; a {type(texts).__name__} was given.")
    try:
        iter(texts)
    except TypeError as error:  # an array of no dimension
        raise DragomanError(f"Texts are wanted, in a list for instance; {shown(texts)} was given.") from error
    return texts


def checked_texts(texts: Iterable[object]) -> Iterator[str]:
    """The texts of an iterable. Raises `DragomanError` at the first item that is none."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DragomanError(f"Text {number} (counted from 0) is {shown(text)}; it has to be a text.")
        yield text


def list_of_texts(texts: object) -> list[str]:
    """The texts of an iterable. Raises `DragomanError` for anything else."""
    return list(checked_texts(iterable_of_texts(texts)))
