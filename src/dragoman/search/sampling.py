"""Sampling. Shapes: B sentences, W samples per sentence, V vocabulary."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import END, PAD, START
from dragoman.search.beam import max_target_lengths, next_log_probs, restrict
from dragoman.search.hypothesis import Constraints, Hypothesis, NBest
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import NonFiniteError
from dragoman.system.random import shift_right, splitmix64


@dataclass(frozen=True)
class SamplingStep:
    """A step of sampling: one more token of each sample, END for those that have ended."""

    logits: Float[Tensor, "B W V"]
    """The tokens were drawn from the softmax of these; -inf marks a token that could not be drawn."""
    written: Int[Tensor, "B W T"]
    """The samples so far, START first."""
    totals: Float[Tensor, "B W"]
    """The model's log-probability of each sample so far."""


@torch.no_grad()
def sample(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints | None = None
) -> NBest:
    """`n_best` samples of each sentence, from the softmax of the allowed tokens' logits / temperature.

    The samples of a sentence depend on the seed and its tokens alone. Log-probabilities are the model's own;
    best first.
    """
    for step in sampling_steps(model, source, settings, constraints or Constraints()):
        last = step
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in samples_of(last)]


def samples_of(last: SamplingStep) -> NBest:
    """The samples of each sentence after the last step, in the order in which they were drawn."""
    return [
        [
            Hypothesis(ids[1 : ids.index(END)], log_prob, log_prob)
            for ids, log_prob in zip(rows, totals, strict=True)
        ]
        for rows, totals in zip(last.written.tolist(), last.totals.tolist(), strict=True)
    ]


@torch.no_grad()
def sampling_steps(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints
) -> Iterator[SamplingStep]:
    """Sampling, step by step, until all samples have ended.

    Raises `NonFiniteError` if the model's numbers are not finite.
    """
    samples = settings.n_best
    max_lengths = max_target_lengths(model, source, settings, constraints.min_capacity)
    steps = int(max_lengths.max()) + 1
    keys = random_keys(source, samples, settings.sampling_seed)
    rows = torch.arange(len(source), device=source.device).repeat_interleave(samples)
    state = model.encode(source).select(rows).allocate(1, steps)
    written = torch.full((len(source), samples, 1), START, device=source.device)
    totals = torch.zeros(len(source), samples, device=source.device)
    ended = torch.zeros(len(source), samples, dtype=torch.bool, device=source.device)
    for step in range(steps):
        features, state = model.decode(written[:, :, -1].reshape(-1, 1), state)
        log_probs = next_log_probs(model, features[:, -1]).view(len(source), samples, -1)
        if log_probs.isnan().any():
            raise NonFiniteError
        allowed = restrict(log_probs, constraints, written, step >= max_lengths)
        logits = sampling_logits(allowed, settings)
        token = (logits + gumbel_noise(keys, step, log_probs.size(-1))).argmax(-1)  # [B, W]
        token = token.masked_fill(ended, END)
        totals = totals + log_probs.gather(2, token[:, :, None])[:, :, 0].masked_fill(ended, 0.0)
        written, ended = torch.cat([written, token[:, :, None]], 2), ended | (token == END)
        yield SamplingStep(logits, written, totals)
        if ended.all():
            return


def sampling_logits(log_probs: Float[Tensor, "B W V"], settings: SearchSettings) -> Float[Tensor, "B W V"]:
    """Log-probability / temperature of the tokens that top-k and top-p keep, -inf of the others.

    With Gumbel noise added, the argmax is each token with its probability (Gumbel 1954). A rounding error
    changes the sample only if two sums are nearly equal; with cumulative probabilities it would move every
    boundary between two tokens.
    """
    scaled = log_probs / settings.temperature
    if settings.top_k or settings.top_p < 1:
        p, tokens = scaled.double().softmax(-1).sort(dim=-1, descending=True, stable=True)
        keep = p > 0
        if settings.top_k:
            keep[..., settings.top_k :] = False
            p = p.masked_fill(~keep, 0)
            p = p / p.sum(-1, keepdim=True)  # top_p is a share of what top_k keeps
        keep &= p.cumsum(-1) - p < settings.top_p  # the fewest tokens that reach top_p together
        scaled = scaled.masked_fill(~torch.zeros_like(keep).scatter(-1, tokens, keep), -torch.inf)
    return scaled


def random_keys(source: Int[Tensor, "B S"], samples: int, seed: int) -> Int[Tensor, "B W"]:
    """64 bits for each sentence and sample, from the seed and the sentence's tokens."""
    texts = [[token for token in ids if token != PAD] for ids in source.tolist()]
    digests = [
        [
            hashlib.blake2b(f"{seed} {number} {ids}".encode(), digest_size=8).digest()
            for number in range(samples)
        ]
        for ids in texts
    ]
    keys = [[int.from_bytes(digest, "big", signed=True) for digest in row] for row in digests]
    return torch.tensor(keys, device=source.device)


def gumbel_noise(keys: Int[Tensor, "B W"], step: int, vocabulary: int) -> Float[Tensor, "B W V"]:
    """-log(-log(u)) of a uniform random number u for each token, from SplitMix64 with the key.

    1 - u has full float32 precision near 0, so that unlikely tokens keep their probability. It is never 1:
    the noise is finite.
    """
    places = torch.arange(step * vocabulary + 1, (step + 1) * vocabulary + 1, device=keys.device)
    bits = splitmix64(keys[:, :, None], places)
    uniform = shift_right(bits, 11).float().add_(0.5).mul_(2.0**-53).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_().log_().neg_()
