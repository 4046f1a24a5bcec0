"""Settings of subword regularisation. This module does not import torch."""

from dataclasses import dataclass

from dragoman.system.errors import DragomanError

MAX_COPIES = 100


@dataclass(frozen=True, kw_only=True)
class SubwordSampling:
    """How the training text is split into tokens in several ways; other text has one, the most likely.

    `bpe_dropout` and `sampling_alpha` are 0 in a run that trains on one segmentation.
    """

    bpe_dropout: float = 0.0
    """Probability with which a merge of BPE is left out in training (BPE-dropout), such as 0.1; 0 leaves out
    none."""
    sampling_alpha: float = 0.0
    """Sample the segmentation of unigram tokens in training, with probabilities to this power, such as 0.2
    (subword regularisation); 0 does not sample."""
    sampled_copies: int = 8
    """With bpe_dropout or sampling_alpha: how often the training text is segmented and written. Epochs use
    these copies in turn."""

    def check(self, source_tokens: str, target_tokens: str | None) -> None:
        """Raise `DragomanError` for values out of bounds, and for tokens that cannot be sampled so.

        For settings that sample.
        """
        for name, value in (("bpe_dropout", self.bpe_dropout), ("sampling_alpha", self.sampling_alpha)):
            if not 0 <= value < 1:
                raise DragomanError(f"{name} is {value}; it must be at least 0 and below 1.")
        if not 1 <= self.sampled_copies <= MAX_COPIES:
            raise DragomanError(
                f"sampled_copies is {self.sampled_copies}; it must be at least 1 and at most {MAX_COPIES}."
            )
        if self.bpe_dropout and self.sampling_alpha:
            raise DragomanError(
                "bpe_dropout is for BPE tokens and sampling_alpha for unigram tokens; give one of them."
            )
        name, kind = ("bpe_dropout", "bpe") if self.bpe_dropout else ("sampling_alpha", "unigram")
        for side, tokens in (("source", source_tokens), ("target", target_tokens)):
            if tokens not in (None, kind):
                raise DragomanError(
                    f"{name} is for {kind} tokens, and {side}_tokens is {tokens}; leave {name} out, or "
                    f"choose {kind} tokens for both sides."
                )
