"""Tables on standard output."""

from rich.console import Console


class Terminal(Console):
    """Rich's console, which ends as other output does if the program that reads it has ended."""

    def on_broken_pipe(self) -> None:
        """Raise `BrokenPipeError`; rich would end the program with status 1."""
        raise BrokenPipeError
