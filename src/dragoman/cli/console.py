"""The command as it was typed, and output for people on standard error. This module imports no torch."""

import os
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from dragoman.system.callers import DragomanWarning
from dragoman.system.errors import LongInput, OptionMessage, SeveralSentences

PACKAGE = str(Path(__file__).parent.parent)


def say(sentence: str) -> None:
    """Print a sentence on standard error. Of several processes only the first one prints."""
    if os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1":
        warn(sentence)


def warn(sentence: str) -> None:
    """Print a sentence on standard error, in every process. A closed standard error is ignored."""
    try:
        print(sentence, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  for as long as the program


def print_own_warnings(told: Callable[[OptionMessage], str]) -> None:
    """Print this package's warnings as sentences, and others as Python does, with their places.

    `told` makes the sentence of one that names options.
    """
    former = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, DragomanWarning) and isinstance(message.args[0], OptionMessage):
            warn(told(message.args[0]))
        elif isinstance(message, DragomanWarning) or filename.startswith(PACKAGE):
            warn(str(message))
        else:
            former(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    for category in (LongInput, SeveralSentences):
        warnings.simplefilter("ignore", category)  # the verbs say it once, with the count


def silence_write_errors_of_threads() -> None:
    """Print no traceback of a thread that cannot write a file: the main thread reports it."""
    threading.excepthook = lambda args: (
        None if isinstance(args.exc_value, OSError) else threading.__excepthook__(args)
    )
