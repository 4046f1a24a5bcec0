"""Warnings that name the line of the program that has called the package."""

import sys
import warnings

BETWEEN = ("dragoman", "dragoman_paper", "asyncio", "contextlib", "functools", "torch")
"""Packages whose functions lie between a caller and a warning: an event loop, cached properties, modules."""


class DragomanWarning(UserWarning):
    """A warning of this package. The command line prints its message as a sentence."""


def warn_caller(message: object, category: type[DragomanWarning] = DragomanWarning) -> None:
    """Warn, with the place of the innermost call from outside the package.

    The message is a text or an `OptionMessage`.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(category(message), stacklevel=level)
