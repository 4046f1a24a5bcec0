"""Errors that the command line prints as a sentence: what was given, what was wanted, what to do."""


class DragomanError(ValueError):
    """An error of the user's input. The command line prints its message without a traceback."""


class LongInput(UserWarning):
    """A sentence has more tokens than any source sentence of training; its translation may be worse."""
