"""What a translator gives back for a sentence."""

from dataclasses import dataclass

from dragoman.system.html import html_table


@dataclass(frozen=True)
class Translation:
    """A translation."""

    text: str
    log_probability: float
    """In nats, of the tokens and END."""
    score: float
    """What ranks it: the log-probability with the length penalty."""
    tokens: tuple[str, ...] = ()
    """Without END."""

    def __repr__(self) -> str:
        numbers = f"log_probability={self.log_probability:.4f}, score={self.score:.4f}"
        return f"Translation({self.text!r}, {numbers})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        numbers = f"{self.log_probability:.4f} nats", f"{self.score:.4f}"
        names = "log-probability", "score", "tokens"
        return html_table(self.text, zip(names, (*numbers, " ".join(self.tokens)), strict=True))
