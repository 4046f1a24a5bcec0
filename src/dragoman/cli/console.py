"""What the verbs of the command line have in common: flags in, sentences out. Nothing here imports torch before it is needed."""

import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import TextIO, TypeVar, cast, get_origin, get_type_hints

import tyro

from dragoman.system.errors import DragomanError, LongInput

T = TypeVar("T")
CONFIG = (tyro.conf.OmitArgPrefixes,)


def say(sentence: str) -> None:
    """Tell people, on standard error: standard output is for results. Of several processes only the first one speaks."""
    if os.environ.get("RANK", "0") == "0":
        warn(sentence)


def warn(sentence: str) -> None:
    """Tell people about a line: of several processes the one that has it. Work goes on where nobody listens any more."""
    try:
        print(sentence, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  for as long as the program


def tell_own_warnings() -> None:
    """Print the warnings of this package as sentences; others as Python does, with their places."""
    former, here = warnings.showwarning, str(Path(__file__).parent)

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
    ) -> None:
        if filename.startswith(here):
            warn(str(message))
        else:
            former(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    warnings.simplefilter("ignore", LongInput)  # the verbs name the line


def tell_threads_errors_once() -> None:
    """Print no traceback of a thread that could not write a file, as TensorBoard's: who waits for it is told."""
    threading.excepthook = lambda told: None if isinstance(told.exc_value, OSError) else threading.__excepthook__(told)


def lists(settings: type) -> Iterator[str]:
    """Names of the settings that have several values, those of settings within them too."""
    for name, kind in get_type_hints(settings).items():
        if is_dataclass(kind):
            yield from lists(cast(type, kind))
        elif get_origin(kind) is tuple:
            yield name


def flags_of(arguments: Sequence[str]) -> set[str]:
    """The names of the flags among the arguments."""
    return {argument.removeprefix("--").split("=")[0].replace("-", "_") for argument in arguments if argument.startswith("--")}


def parse(settings: type[T], verb: str, arguments: Sequence[str], default: T | None = None) -> T:
    """Settings from flags. Ends the program with help or a message where they are not understood.

    Raises `DragomanError` where a flag of several values is given twice: the last alone would count.
    """
    for name in lists(settings):
        flag = f"--{name.replace('_', '-')}"
        if sum(argument.split("=")[0].replace("_", "-") == flag for argument in arguments) > 1:
            raise DragomanError(f"{flag} is given more than once; give it once, with all its values: {flag} A B.")
    if default is None:
        return tyro.cli(settings, prog=f"dragoman {verb}", args=arguments, config=CONFIG)
    return tyro.cli(settings, prog=f"dragoman {verb}", args=arguments, default=default, config=CONFIG)


def has_gpu() -> bool:
    """Whether torch finds a GPU."""
    import torch

    return torch.cuda.is_available()


def may_have_gpu() -> bool:
    """Whether the system may have one, as far as that can be told without torch."""
    devices = ("nvidia0", "nvidiactl", "dxg", "kfd")  # of CUDA, in Windows's Linux, and ROCm's
    return sys.platform == "win32" or any(Path("/dev", name).exists() for name in devices)


def own_gpu() -> str | None:
    """The GPU of this process among those that torchrun has started on this machine; None leaves the choice to the model."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if "LOCAL_RANK" in os.environ and has_gpu() else None
