"""Attribution by changes of inputs: log-probabilities without some tokens, or with others in their place.

Shapes: T target tokens, C attributed tokens, M rows, P probes, D = d_model.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.inspection.analyse.attributed import ROWS, Attributed
from dragoman.inspection.analyse.path_attribution import SEED, random_inputs

SAMPLES, SAMPLES_PER_TOKEN, KERNEL_WIDTH = 256, 16, 0.25  # of LIME
PROBES, MAX_STEPS, REPLACED, KEPT, LIKELIEST = 16, 50, 0.3, 0.3, 3  # of ReAGent


@torch.no_grad()
def occlusion(function: Attributed) -> Float[Tensor, "T C"]:
    """Log P minus log P with one token at the baseline (Zeiler and Fergus 2014)."""
    without = ~torch.eye(len(function.inputs), dtype=torch.bool, device=function.inputs.device)
    return (function.log_probs(function.inputs[None]) - masked_log_probs(function, without)).T


def masked_log_probs(function: Attributed, masks: Bool[Tensor, "M C"]) -> Float[Tensor, "M T"]:
    """Log P of the target tokens with all tokens at the baseline that the masks leave out."""
    rows = (torch.where(mask[..., None], function.inputs, function.baseline) for mask in masks.split(ROWS))
    return torch.cat([function.log_probs(chunk) for chunk in rows])


@torch.no_grad()
def lime(function: Attributed) -> Float[Tensor, "T C"]:
    """The weights of a linear model that predicts log P from which tokens are there (Ribeiro et al. 2016).

    Least squares over sentences with a random number of random tokens at the baseline. The weight of a
    sentence falls with the cosine distance d of its mask from that of the whole sentence: exp(−d² / 2σ²) with
    σ = 0.25.
    """
    generator, size = torch.Generator().manual_seed(SEED), len(function.inputs)
    samples = max(SAMPLES, SAMPLES_PER_TOKEN * size)
    removed = torch.randint(size, (samples, 1), generator=generator)
    removed[0] = 0
    masks = (torch.rand(samples, size, generator=generator).argsort(1) >= removed).to(function.inputs.device)
    log_probs = masked_log_probs(function, masks).double()
    distance = 1 - masks.double().mean(1).sqrt()
    # A residual gets the root of the weight of its square.
    weight = (-((distance / KERNEL_WIDTH) ** 2) / 4).exp()[:, None]
    weights = log_probs.new_zeros(log_probs.size(1), size)
    for token in range(len(weights)):
        read = function.read(token)
        terms = torch.cat([torch.ones_like(weight), masks[:, :read].double()], 1)
        fit = torch.linalg.lstsq(weight * terms, weight * log_probs[:, token, None]).solution
        weights[token, :read] = fit[1:, 0]
    return weights


@torch.no_grad()
def reagent(function: Attributed, most_steps: int = MAX_STEPS) -> Float[Tensor, "T C"]:
    """Recursive attribution: shares of importance, 1 in sum (ReAGent, Zhao and Shan 2024).

    In each step a probe replaces 30 % of the tokens, drawn at random, by random ones. If P of a target token
    falls, the replaced tokens gain importance and the others lose as much: log-odds of (1 + fall of P) / 2.
    The probe of a target token ends when this token is among the 3 likeliest with all tokens replaced but the
    30 % of greatest importance, or after `most_steps`. The shares are means over 16 probes. Random tokens are
    drawn from the vocabulary; the authors draw those that a language model finds likely.
    """
    generator, size = torch.Generator().manual_seed(SEED), len(function.inputs)
    targets = range(function.target.size(1))
    read = torch.tensor([[place < function.read(token) for place in range(size)] for token in targets])
    log_odds = torch.rand(PROBES, len(targets), size, generator=generator).masked_fill(~read, -torch.inf)
    log_odds, keep_counts = (
        log_odds.to(function.inputs),
        (KEPT * read.sum(1, keepdim=True)).ceil().to(function.source),
    )
    probs = function.log_probs(function.inputs[None]).exp()
    unfinished = torch.ones_like(log_odds[..., 0], dtype=torch.bool)
    for _ in range(most_steps):
        order = torch.rand(PROBES, size, generator=generator).argsort(1).to(function.source)
        replaced = order < math.ceil(REPLACED * size)
        fall = probs - function.log_probs(with_random_tokens(function, replaced, generator)).exp()  # [P T]
        gain = torch.logit((1 + fall) / 2, eps=1e-6)[..., None]
        gain = torch.where(replaced[:, None], gain, -gain)
        log_odds = torch.where(unfinished[..., None], log_odds + gain, log_odds)
        probe, token = unfinished.nonzero(as_tuple=True)
        rank = log_odds[probe, token].argsort(1, descending=True).argsort(1)
        unfinished[probe, token] = ~are_likely(function, token, rank >= keep_counts[token], generator)
        if not unfinished.any():
            break
    return log_odds.softmax(2).mean(0)


def are_likely(
    function: Attributed, tokens: Int[Tensor, "M"], replaced: Bool[Tensor, "M C"], generator: torch.Generator
) -> Bool[Tensor, "M"]:
    """Whether each of these target tokens is among the likeliest with random tokens at some places."""
    likely = []
    for chunk, places in zip(tokens.split(ROWS), replaced.split(ROWS), strict=True):
        log_probs = function.all_log_probs(function.features(with_random_tokens(function, places, generator)))
        likeliest = log_probs[torch.arange(len(chunk)), chunk].topk(LIKELIEST).indices
        likely.append((likeliest == function.target[0, chunk, None]).any(1))
    return torch.cat(likely)


def with_random_tokens(
    function: Attributed, replaced: Bool[Tensor, "P C"], generator: torch.Generator
) -> Float[Tensor, "P C D"]:
    """The input with random tokens at these places."""
    return torch.where(
        replaced[..., None], random_inputs(function, len(replaced), generator), function.inputs
    )
