"""Other tokens at a position of a translation. Shapes: S source tokens."""

import math
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import END, START
from dragoman.search.beam import beam_search, max_target_lengths, next_log_probs, restrict
from dragoman.search.hypothesis import Constraints, Hypothesis, scored
from dragoman.search.scoring import token_log_probabilities
from dragoman.search.settings import SearchSettings
from dragoman.search.top_k import top_k_extensions
from dragoman.system.errors import NonFiniteError


@torch.no_grad()
def alternatives(
    model: Model, source: Int[Tensor, "1 S"], constraints: Constraints, count: int, settings: SearchSettings
) -> list[tuple[int, float, Hypothesis]]:
    """The likeliest allowed tokens after the prefix, each with its probability and the best completion.

    Raises `NonFiniteError` if the model's numbers are not finite.
    """
    prefix = list(constraints.prefix)
    decoder_input = torch.tensor([[START, *prefix]], device=source.device)
    features, _ = model.decode(decoder_input, model.encode(source))
    log_probs = next_log_probs(model, features[:, -1])[None]
    if log_probs.isnan().any():
        raise NonFiniteError
    at_end = len(prefix) >= max_target_lengths(model, source, settings, constraints.min_capacity)
    allowed = restrict(log_probs, constraints, decoder_input[None], at_end)
    totals, _, tokens = top_k_extensions(
        allowed, torch.zeros(1, 1, device=source.device), min(count, log_probs.size(2))
    )
    completed = []
    for token, log_prob in zip(tokens[0].tolist(), totals[0].tolist(), strict=True):
        if log_prob == -torch.inf:
            continue
        if token == END:
            best = finished_with(model, source, prefix, settings)
        else:
            extended = replace(constraints, prefix=[*prefix, token])
            best = beam_search(model, source, replace(settings, n_best=1), extended)[0][0]
        completed.append((token, math.exp(log_prob), best))
    return completed


def finished_with(
    model: Model, source: Int[Tensor, "1 S"], ids: list[int], settings: SearchSettings
) -> Hypothesis:
    """The hypothesis of exactly these tokens."""
    target = torch.tensor([[*ids, END]], device=source.device)
    log_prob = float(token_log_probabilities(model, source, target).sum())
    return scored(ids, log_prob, settings)
