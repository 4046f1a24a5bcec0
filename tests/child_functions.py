"""Functions that tests call in a process of their own. They import little, so that it starts fast."""

import re
from pathlib import Path

from dragoman.system.errors import DragomanError


def read_for_ever(path: Path, *_: object) -> bytes:
    """Take ages, and look at nothing meanwhile."""
    path.write_text("begun")
    re.fullmatch("(a|a)*b", "a" * 100)
    return b""


def need_memory() -> bytes:
    """Need a gigabyte."""
    return bytes(10**9)


def first_letter(text: str) -> bytes:
    """The first letter of a text."""
    if not text:
        raise DragomanError("There is no text.")
    return text[0].encode()


def write_to(path: str) -> bytes:
    """Write a file."""
    Path(path).write_text("a")
    return b""
