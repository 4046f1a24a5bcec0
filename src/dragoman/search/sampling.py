"""Translations drawn at random. Shapes: B sentences, W draws a sentence, V vocabulary."""

import hashlib

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import END, PAD, START
from dragoman.search.beam import max_target_lengths, next_log_p
from dragoman.search.constraints import mask_forbidden
from dragoman.search.hypothesis import NON_FINITE, Hypothesis
from dragoman.search.settings import Constraints, SearchSettings
from dragoman.system.errors import DragomanError
from dragoman.system.random import shift_right, splitmix64


@torch.no_grad()
def sample(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints | None = None
) -> list[list[Hypothesis]]:
    """`n_best` translations of each sentence, each token drawn from the softmax of logits / temperature among the allowed.

    The draws of a sentence depend on the seed and its tokens alone. Log-probabilities are the model's own; best first.
    """
    constraints, draws = constraints or Constraints(), settings.n_best
    longest = max_target_lengths(model, source, settings, constraints.min_capacity)
    steps = int(longest.max()) + 1
    keys = keys_of(source, draws, settings.sampling_seed)
    each = torch.arange(len(source), device=source.device).repeat_interleave(draws)
    state = model.encode(source).select(each).allocate(1, steps)  # draws have nothing in common but the source
    written = torch.full((len(source), draws, 1), START, device=source.device)
    log_probability = torch.zeros(len(source), draws, device=source.device)
    ended = torch.zeros(len(source), draws, dtype=torch.bool, device=source.device)
    for step in range(steps):
        features, state = model.decode(written[:, :, -1].reshape(-1, 1), state)
        log_p = next_log_p(model, features[:, -1]).view(len(source), draws, -1)
        if log_p.isnan().any():
            raise DragomanError(NON_FINITE)
        at_end = step >= longest
        noise = gumbel_noise(keys, step, log_p.size(-1))
        drawn = draw(mask_forbidden(log_p, constraints, written, at_end), noise, settings)
        drawn = drawn.masked_fill(ended | at_end[:, None], END)
        log_probability += log_p.gather(2, drawn[:, :, None])[:, :, 0].masked_fill(ended, 0.0)
        written, ended = torch.cat([written, drawn[:, :, None]], 2), ended | (drawn == END)
        if ended.all():
            break
    found = [
        [Hypothesis(ids[1 : ids.index(END)], log_p, log_p) for ids, log_p in zip(rows, totals, strict=True)]
        for rows, totals in zip(written.tolist(), log_probability.tolist(), strict=True)
    ]
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in found]


def draw(log_p: Float[Tensor, "B W V"], noise: Float[Tensor, "B W V"], settings: SearchSettings) -> Int[Tensor, "B W"]:
    """One token a row of those that top-k and top-p leave: the one whose log-probability / temperature and noise add up to most.

    With Gumbel noise it is any with its probability (Gumbel 1954). A rounding of log-probabilities changes what is drawn where two sums
    nearly agree and nowhere else, while it would move all borders between cumulated probabilities at once.
    """
    scaled = log_p / settings.temperature
    if settings.top_k or settings.top_p < 1:
        likeliest, tokens = scaled.double().softmax(-1).sort(dim=-1, descending=True, stable=True)
        left = likeliest > 0
        if settings.top_k:
            left[..., settings.top_k :] = False
            likeliest = likeliest.masked_fill(~left, 0)
        left &= likeliest.cumsum(-1) - likeliest < settings.top_p  # the fewest likeliest tokens that reach top_p together
        scaled = scaled.masked_fill(~torch.zeros_like(left).scatter(-1, tokens, left), -torch.inf)
    return (scaled + noise).argmax(-1)


def keys_of(source: Int[Tensor, "B S"], draws: int, seed: int) -> Int[Tensor, "B W"]:
    """A number of 64 bits for each sentence and draw, made from the seed and the sentence's tokens."""
    texts = [[token for token in ids if token != PAD] for ids in source.tolist()]
    digests = [[hashlib.blake2b(f"{seed} {number} {ids}".encode(), digest_size=8).digest() for number in range(draws)] for ids in texts]
    keys = [[int.from_bytes(digest, "big", signed=True) for digest in row] for row in digests]
    return torch.tensor(keys, device=source.device)


def gumbel_noise(keys: Int[Tensor, "B W"], step: int, vocabulary: int) -> Float[Tensor, "B W V"]:
    """-log(-log(u)) of a uniform number for each token, from SplitMix64 (Steele et al. 2014), whose sequence begins at the key.

    1 - u is as precise near 0 as a float32 can be, so that the least likely tokens have their chance, and never 1: the noise is finite.
    """
    places = torch.arange(step * vocabulary + 1, (step + 1) * vocabulary + 1, device=keys.device)
    bits = splitmix64(keys[:, :, None], places)
    uniform = shift_right(bits, 11).float().add_(0.5).mul_(2.0**-53).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()
