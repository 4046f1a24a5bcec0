"""What a translator gives back for a sentence."""

from dataclasses import dataclass


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
