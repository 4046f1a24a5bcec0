"""Tables on standard output, and who is shown a progress bar."""

from importlib.util import find_spec

from rich.console import Console


class Terminal(Console):
    """Rich's console, which ends as other output does if the program that reads it has ended."""

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError`; rich would end the program with status 1."""
        raise BrokenPipeError


def shows_bars(console: Console) -> bool:
    """Whether a progress bar moves on a console: it is a terminal, or a notebook that has ipywidgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
