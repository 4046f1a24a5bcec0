"""Processes of the tests, forked from this one: they need not import PyTorch again."""

import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import jaxtyping

from dragoman.cli import main as cli
from tests.conftest import MAX_SECONDS

FILE_OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
"""Names of Python's audit events."""


def fork(work: Callable[[], object]) -> int:
    """Do the work in a process of its own; give its number.

    Its exit status is 1, or that of SystemExit, where it fails.
    """
    import torch._dynamo  # PyTorch's optimizers want it: a second or two in every child that has not got it

    process = os.fork()
    if process:
        return process
    status = 1
    try:
        warnings.simplefilter("default")
        jaxtyping.config.update("jaxtyping_disable", True)
        torch.set_num_threads(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def die_when(is_moment: Callable[[str], bool]) -> None:
    """Kill this process at the first operation on a file or folder whose path fulfils the condition."""

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in FILE_OPERATIONS and is_moment(str(arguments[0])):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def run_command(arguments: list[str], told: Path) -> None:
    """What the command line does. What it says is added to a file."""
    signal.alarm(MAX_SECONDS)
    sys.argv = ["dragoman", *arguments]
    sys.stderr = told.open("a", buffering=1)
    os.dup2(sys.stderr.fileno(), 2)
    cli.main()


def as_ranks(ranks: int, work: Callable[[], object]) -> list[int]:
    """The work in as many processes as torchrun would start; their numbers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def run(rank: int) -> None:
        if ranks > 1:
            os.environ.update(
                RANK=str(rank),
                LOCAL_RANK=str(rank),
                WORLD_SIZE=str(ranks),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
            )
        work()

    return [fork(lambda rank=rank: run(rank)) for rank in range(ranks)]


def start(ranks: int, arguments: list[str], told: Path) -> list[int]:
    """A command in as many processes as torchrun would start; their numbers.

    What they say is written to a file.
    """
    told.unlink(missing_ok=True)
    return as_ranks(ranks, lambda: run_command(arguments, told))


def dragoman(ranks: int, arguments: list[str], told: Path) -> int:
    """The same, to its end; the worst exit status."""
    return worst(start(ranks, arguments, told))


def worst(processes: list[int]) -> int:
    """The worst exit status of processes, once all have ended."""
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])) for process in processes)
