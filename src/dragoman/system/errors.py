"""Errors that the command line prints as a sentence: what was given, what was wanted, what to do.

Also how a lack of memory is told from other errors.
"""

import re
from collections.abc import Mapping
from functools import partial

from dragoman.system.callers import DragomanWarning

NEEDS_PYTORCH = "This needs PyTorch, which is not installed: pip install 'dragoman[train]'."
PLACE = re.compile(r"\{(\w+)(!r|=False)?\}")
"""Where a name or a value stands in the sentence of an `OptionMessage`. Other braces are text."""


class DragomanError(ValueError):
    """An error of the user's input. The command line prints its message without a traceback."""


class OptionMessage:
    """A sentence in which the names of settings, and of values, stand in braces.

    `OptionMessage("{n_best} is {value}; leave {n_best} out.", value=2)`; the command line writes `--n-best`,
    and `--no-mbr` for `{mbr=False}`.
    """

    def __init__(self, sentence: str, **values: object) -> None:
        self.sentence, self.values = sentence, values

    @property
    def fields(self) -> tuple[str, ...]:
        """The settings that the sentence names."""
        names = (place[1] for place in PLACE.finditer(self.sentence))
        return tuple(dict.fromkeys(name for name in names if name not in self.values))

    def told(self, names: Mapping[str, str]) -> str:
        """The sentence with these names of settings; others stay."""

        def filled(place: re.Match[str]) -> str:
            name, form = place.groups()
            if name in self.values:
                return repr(self.values[name]) if form else str(self.values[name])
            told = names.get(name, name)
            if form and told.startswith("--"):
                return f"--no-{told[2:]}"
            return f"{told}{form or ''}"

        return PLACE.sub(filled, self.sentence)

    def __str__(self) -> str:
        return self.told({})


class OptionError(OptionMessage, DragomanError):
    """A wrong option, by an `OptionMessage`."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Errors go from process to process in pickles."""
        return partial(type(self), self.sentence, **self.values), ()


class NonFiniteError(DragomanError):
    """A model is unusable: its probabilities are NaN or infinite."""

    def __init__(self) -> None:
        super().__init__(
            "The model's probabilities are not finite: its training diverged, or its weights were damaged "
            "before they were saved."
        )

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Errors go from process to process in pickles."""
        return type(self), ()


class NotEnoughMemoryError(OptionError):
    """There is not enough memory at the moment for what was asked."""


class LongInput(DragomanWarning):
    """A sentence has more tokens than any source sentence of training; its translation may be worse."""


class SeveralSentences(DragomanWarning):
    """A text to translate has several sentences or a line break; its translation may leave some out."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether PyTorch or oneDNN reports a lack of memory, of a GPU or the machine."""
    # "could not create a primitive descriptor" is about an unsupported operation.
    signs = r"out of memory|can't allocate memory|could not create a primitive(?! descriptor)"
    return isinstance(error, MemoryError) or re.search(signs, str(error)) is not None


def reason(error: Exception) -> str:
    """Why something failed, in the words of an error without its numbers and the file's name."""
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    message = re.sub(r"\[Errno -?\d+\] | \(os error \d+\)", "", message)
    return re.sub(r"^<urlopen error (.*)>$", r"\1", message)
