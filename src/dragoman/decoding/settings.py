"""How translations are searched for. The defaults are the paper's (section 6.1); nothing here imports torch."""

from dataclasses import dataclass

from dragoman.errors import DragomanError, require


@dataclass(frozen=True)
class SearchSettings:
    """Beam search with the length penalty of Wu et al. (2016). Raises `DragomanError` where the values contradict each other."""

    beam_size: int = 4
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 0.6
    """α of ((5 + |Y|) / 6)^α, by which a hypothesis's log-probability is divided; |Y| counts the end token."""
    extra_length: int = 50
    """A translation may have this many tokens more than its source."""
    n_best: int = 1
    """Translations to give for each sentence, at most beam_size."""
    batch_tokens: int = 16_000
    """Sentences · beams · (longest source + extra_length) decoded at once; changes memory and speed, never a translation."""

    def __post_init__(self) -> None:
        require(self, least={"beam_size": 1, "n_best": 1, "batch_tokens": 1, "length_penalty": 0, "extra_length": 0})
        if self.n_best > self.beam_size:
            raise DragomanError(f"n_best is {self.n_best}; a beam of {self.beam_size} has no more than {self.beam_size}.")
