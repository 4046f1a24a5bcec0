"""Settings of subword regularisation. This module does not import torch."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SubwordSampling:
    """How the training text is split into tokens in several ways; other text has one, the most likely.

    Each is 0 in a run that trains on one segmentation.
    """

    bpe_dropout: float = 0.0
    """Probability with which a merge of BPE is left out in training (BPE-dropout), such as 0.1; 0 leaves out
    none."""
    sampling_alpha: float = 0.0
    """Sample the segmentation of unigram tokens in training, with probabilities to this power, such as 0.2
    (subword regularisation); 0 does not sample."""
    sampled_copies: int = 8
    """With bpe_dropout or sampling_alpha: the times that the training text is segmented and written. Epochs
    use these copies in turn."""
