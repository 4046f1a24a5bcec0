"""Errors that the command line prints as a sentence: what was given, what was wanted, what to do.

Also how a lack of memory is told from other errors.
"""

import re


class DragomanError(ValueError):
    """An error of the user's input. The command line prints its message without a traceback."""


class OutOfBoundsError(DragomanError):
    """A value of a setting is out of bounds: the name of the setting, and the rest of the sentence."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field, self.problem = field, problem

    def __str__(self) -> str:
        return f"{self.field} {self.problem}"


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


class NotEnoughMemoryError(DragomanError):
    """There is not enough memory at the moment for what was asked."""


class LongInput(UserWarning):
    """A sentence has more tokens than any source sentence of training; its translation may be worse."""


class SeveralSentences(UserWarning):
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
