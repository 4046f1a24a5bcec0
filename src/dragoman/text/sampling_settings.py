"""Settings of subword regularisation. This module does not import torch."""

from dataclasses import dataclass

from dragoman.system.errors import OptionError
from dragoman.system.options import Excludes, option


@dataclass(frozen=True, kw_only=True)
class SubwordSampling:
    """How the training text is split into tokens in several ways; other text has one, the most likely.

    `bpe_dropout` and `sampling_alpha` are 0 in a run that trains on one segmentation.
    """

    bpe_dropout: float = option(
        0.0,
        Excludes(("sampling_alpha",), "the one is for BPE tokens, the other for unigram tokens"),
        at_least=0,
        below=1,
    )
    """Probability with which a merge of BPE is left out in training (BPE-dropout), such as 0.1; 0 leaves out
    none."""
    sampling_alpha: float = option(0.0, at_least=0, below=1)
    """Sample the segmentation of unigram tokens in training, with probabilities to this power, such as 0.2
    (subword regularisation); 0 does not sample."""
    sampled_copies: int = option(8, at_least=1, at_most=100)
    """With bpe_dropout or sampling_alpha: how often the training text is segmented and written. Epochs use
    these copies in turn."""

    def check(self, source_tokens: str, target_tokens: str | None) -> None:
        """Raise `OptionError` for tokens that cannot be sampled so. For settings that sample."""
        name, kind = ("bpe_dropout", "bpe") if self.bpe_dropout else ("sampling_alpha", "unigram")
        for side, tokens in (("source", source_tokens), ("target", target_tokens)):
            if tokens not in (None, kind):
                raise OptionError(
                    f"{{{name}}} is for {kind} tokens, and {{{side}_tokens}} is {tokens}; leave {{{name}}} "
                    f"out, or choose {kind} tokens for both sides."
                )
