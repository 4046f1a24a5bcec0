"""Texts that a program gives: what is one, and what is refused. This module imports no torch."""

from collections.abc import Iterable, Iterator, Mapping, Set

from dragoman.system.errors import DragomanError


def iterable_of_texts(texts: object) -> Iterable[object]:
    """What may have texts. Raises `DragomanError` for one text, a table, a set, and what is no iterable."""
    if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
        raise DragomanError(f"Texts are wanted, in a list for instance; a {type(texts).__name__} was given.")
    return texts


def checked_texts(texts: Iterable[object]) -> Iterator[str]:
    """The texts of an iterable. Raises `DragomanError` at the first item that is none."""
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise DragomanError(f"Text {number} (counted from 0) is {text!r}; it has to be a text.")
        yield text


def list_of_texts(texts: object) -> list[str]:
    """The texts of an iterable. Raises `DragomanError` for anything else."""
    return list(checked_texts(iterable_of_texts(texts)))
