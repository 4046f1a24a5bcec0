"""The numbers that torchrun gives to its processes, in environment variables."""

import os

from dragoman.system.errors import DragomanError


def process_count() -> int:
    """The number of processes of this program that torchrun has started; 1 without torchrun.

    Raises `DragomanError` if WORLD_SIZE is no number of processes.
    """
    return environment_number("WORLD_SIZE", 1, at_least=1)


def process_rank() -> int:
    """The number of this process, from 0; 0 of a single process.

    Raises `DragomanError` if RANK is no such number.
    """
    return environment_number("RANK", 0, at_least=0) if process_count() > 1 else 0


def environment_number(variable: str, default: int, at_least: int) -> int:
    """The number in an environment variable. Raises `DragomanError` for anything else."""
    given = os.environ.get(variable, str(default))
    if not (given.isascii() and given.isdigit()) or int(given) < at_least:
        raise DragomanError(
            f"The environment variable {variable} is {given!r}; torchrun sets it to a whole number from "
            f"{at_least}. Start the program by torchrun, or unset {variable}."
        )
    return int(given)
