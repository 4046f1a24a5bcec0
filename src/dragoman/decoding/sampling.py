"""Translations drawn at random. Shapes: B sentences, W draws a sentence, V vocabulary."""

import hashlib

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.decoding.constraints import Constraints
from dragoman.decoding.forbidden import without_forbidden
from dragoman.decoding.hypothesis import NO_NUMBERS, Hypothesis
from dragoman.decoding.search import longest_targets, next_log_p
from dragoman.decoding.settings import SearchSettings
from dragoman.errors import DragomanError
from dragoman.model.contract import Model
from dragoman.model.symbols import END, PAD, START


@torch.no_grad()
def sample(
    model: Model, source: Int[Tensor, "B S"], settings: SearchSettings, constraints: Constraints | None = None
) -> list[list[Hypothesis]]:
    """`n_best` translations of each sentence, each token drawn from the softmax of logits / temperature among the allowed.

    The draws of a sentence depend on the seed and its tokens alone. Log-probabilities are the model's own; best first.
    """
    constraints, draws = constraints or Constraints(), settings.n_best
    longest = longest_targets(model, source, settings, constraints.least)
    steps = int(longest.max()) + 1
    uniform = uniform_numbers(source, draws, steps, settings.draw_seed)
    each = torch.arange(len(source), device=source.device).repeat_interleave(draws)
    state = model.encode(source).keep(each).with_room(1, steps)  # draws have nothing in common but the source
    written = torch.full((len(source), draws, 1), START, device=source.device)
    log_probability = torch.zeros(len(source), draws, device=source.device)
    ended = torch.zeros(len(source), draws, dtype=torch.bool, device=source.device)
    for step in range(steps):
        features, state = model.decode(written[:, :, -1].reshape(-1, 1), state)
        log_p = next_log_p(model, features[:, -1]).view(len(source), draws, -1)
        if log_p.isnan().any():
            raise DragomanError(NO_NUMBERS)
        at_end = step >= longest
        drawn = draw(without_forbidden(log_p, constraints, written, at_end), uniform[:, :, step], settings)
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


def draw(log_p: Float[Tensor, "B W V"], uniform: Float[Tensor, "B W"], settings: SearchSettings) -> Int[Tensor, "B W"]:
    """One token a row, by the inverse of the cumulated probabilities, in the order of ids, of those that top-k and top-p leave.

    In the order of probabilities two that are as likely would change places by a rounding, and with them what is drawn.
    """
    p = (log_p.double() / settings.temperature).softmax(-1)
    if settings.top_k or settings.top_p < 1:
        likeliest, tokens = p.sort(dim=-1, descending=True, stable=True)
        if settings.top_k:
            likeliest[..., settings.top_k :] = 0
        before = likeliest.cumsum(-1) - likeliest
        likeliest = likeliest.masked_fill(before >= settings.top_p, 0)  # the fewest likeliest tokens that reach top_p together
        p = torch.zeros_like(p).scatter(-1, tokens, likeliest)
    cumulated = p.cumsum(-1)
    drawn = (cumulated <= uniform[:, :, None] * cumulated[..., -1:]).sum(-1)
    last = p.size(-1) - 1 - (p > 0).flip(-1).int().argmax(-1)
    return drawn.minimum(last)


def uniform_numbers(source: Int[Tensor, "B S"], draws: int, steps: int, seed: int) -> Float[Tensor, "B W T"]:
    """Numbers between 0 and 1 for each sentence, draw and step, made from the seed and the sentence's tokens."""
    rows = []
    for ids in source.tolist():
        digest = hashlib.blake2b(f"{seed} {[token for token in ids if token != PAD]}".encode(), digest_size=16).digest()
        generator = np.random.default_rng(int.from_bytes(digest, "big"))
        rows.append(np.stack([stream.random(steps) for stream in generator.spawn(draws)]))
    return torch.from_numpy(np.stack(rows)).to(source.device)
