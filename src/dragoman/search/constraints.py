"""Tokens that constraints forbid at a step.

Shapes: B sentences, W hypotheses each, T tokens so far (START first), V vocabulary.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.model.symbols import END
from dragoman.search.hypothesis import Constraints


def mask_forbidden(
    log_probs: Float[Tensor, "B W V"],
    constraints: Constraints,
    live: Int[Tensor, "B W T"],
    at_end: Bool[Tensor, "B"],
) -> Float[Tensor, "B W V"]:
    """The log-probabilities, with -inf for each token that the constraints forbid after its prefix.

    END is allowed in sentences at their maximum length, and in hypotheses with no other allowed token.
    """
    allowed = log_probs != -torch.inf
    length = live.size(2) - 1
    if length < constraints.min_length:
        allowed[..., END] = False
    if length < len(constraints.prefix):
        allowed &= torch.arange(log_probs.size(2), device=log_probs.device) == constraints.prefix[length]
    for sequence in constraints.banned:
        if length >= len(sequence) - 1:
            matches = live[..., live.size(2) - len(sequence) + 1 :] == live.new_tensor(sequence[:-1])
            allowed[..., sequence[-1]] &= ~matches.all(-1)
    if 0 < constraints.no_repeat_ngram <= length:
        allowed &= ~repeated_ngram(live[..., 1:], constraints.no_repeat_ngram, log_probs.size(2))
    allowed[..., END] |= at_end[:, None] | ~allowed.any(-1)
    return log_probs.masked_fill(~allowed, -torch.inf)


def repeated_ngram(tokens: Int[Tensor, "B W L"], size: int, vocabulary: int) -> Bool[Tensor, "B W V"]:
    """The tokens that would repeat an n-gram of `size` tokens."""
    windows = tokens.unfold(2, size, 1)
    suffix = tokens[..., tokens.size(2) - size + 1 :]
    matches = (windows[..., :-1] == suffix[:, :, None]).all(-1)
    counts = tokens.new_zeros(*tokens.shape[:2], vocabulary)
    return counts.scatter_add_(2, windows[..., -1], matches.to(counts.dtype)) > 0
