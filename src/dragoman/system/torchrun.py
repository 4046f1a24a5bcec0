"""The numbers that torchrun gives to its processes, in environment variables."""

import os

from dragoman.system.errors import DragomanError


def process_count() -> int:
    """The number of processes of this program that torchrun has started; 1 without torchrun.

    Raises `DragomanError` if WORLD_SIZE is no number of processes.
    """
    return environment_number("WORLD_SIZE", 1, at_least=1)


def process_rank() -> int:
    """The number of this process, from 0. A single process may have any RANK, unless torchrun has set it.

    Raises `DragomanError` if RANK is no such number.
    """
    size = process_count()
    if size == 1 and not {"WORLD_SIZE", "MASTER_ADDR"} <= os.environ.keys():
        return 0
    rank = environment_number("RANK", 0, at_least=0)
    if rank >= size:
        raise DragomanError(
            f"The environment variable RANK is {rank}, and WORLD_SIZE is {size}; ranks are numbered from 0."
        )
    return rank


def environment_number(variable: str, default: int, at_least: int) -> int:
    """The number in an environment variable. Raises `DragomanError` for anything else."""
    value = os.environ.get(variable, str(default))
    if not (value.isascii() and value.isdigit()) or int(value) < at_least:
        raise DragomanError(
            f"The environment variable {variable} is {value!r}; torchrun sets it to a whole number from "
            f"{at_least}. Start the program by torchrun, or unset {variable}."
        )
    return int(value)
