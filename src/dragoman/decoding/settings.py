"""How translations are searched for. The defaults are the paper's (section 6.1); nothing here imports torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """Beam search with the length penalty of Wu et al. (2016). Raises `ValueError` where the values contradict each other."""

    beam_size: int = 4
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 0.6
    """α of ((5 + |Y|) / 6)^α, by which a hypothesis's log-probability is divided; |Y| counts the end token."""
    extra_length: int = 50
    """A translation may have this many tokens more than its source."""
    n_best: int = 1
    """Translations to give for each sentence, at most beam_size."""
    batch_tokens: int = 4000
    """Source tokens decoded at once, padding and beams included; changes memory and speed, never a translation."""

    def __post_init__(self) -> None:
        for name in ("beam_size", "n_best", "batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.n_best > self.beam_size:
            raise ValueError(f"n_best is {self.n_best}; a beam of {self.beam_size} has no more than {self.beam_size}.")
        if self.length_penalty < 0 or self.extra_length < 0:
            raise ValueError("length_penalty and extra_length must not be negative.")
