"""The world of this process: that of torchrun, or its own."""

from contextlib import AbstractContextManager, nullcontext
from os import environ

from dragoman.training.world import World


def process_group() -> AbstractContextManager[World]:
    """The world that torchrun has made, or a world of this process alone.

    Raises `DragomanError` for variables of torchrun that cannot be used, and in the remaining processes if
    one of them has ended.
    """
    if environ.get("WORLD_SIZE", "1") == "1" and not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} <= environ.keys():
        return nullcontext(World())
    from dragoman.training.distributed import torchrun_group

    return torchrun_group()
