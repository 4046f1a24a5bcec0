"""Attribution by gradients on the way to an input from a baseline, and DeepLIFT's slopes between both.

Shapes: T target tokens, C attributed tokens, M points, B baselines, D = d_model, V vocabulary. Sums of Gauss
and Legendre need fewer points than midpoints do.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.inspection.analyse.attributed import Attributed
from dragoman.model.symbols import END, PAD, START, UNKNOWN
from dragoman.model.transformer import FeedForward
from dragoman.system.errors import DragomanError

STEPS = 32  # points on a path that is not refined
POINTS_OF_PART, FIRST_PARTS, MAX_PARTS = 8, 4, 12  # of a path that is refined
HALVINGS = 160  # of a path, times target tokens, each of which needs a gradient
TOLERANCE = 0.3  # nats: the error of a sum, beyond which a path is refined
SEED, BASELINES = 1, 16
NEIGHBOURS = 50  # of a token, among which discretized integrated gradients look for the next one
SPECIAL = (PAD, UNKNOWN, START, END)
SMALLEST = 1e-6  # difference of two inputs of an activation function whose slope is computed from both


def no_progress(done: int, total: int) -> None:
    """Tells nobody."""


def points_and_shares(steps: int) -> tuple[Float[Tensor, "M"], Float[Tensor, "M"]]:
    """Points between 0 and 1 and their shares of a mean over this interval, by Gauss and Legendre.

    Means of polynomials up to degree 2 · steps − 1 are exact.
    """
    points, weights = np.polynomial.legendre.leggauss(steps)  # of the interval from -1 to 1
    return torch.from_numpy((points + 1) / 2), torch.from_numpy(weights / 2)


def path_and_factors(
    function: Attributed, baseline: Float[Tensor, "C D"], steps: int, first: float = 0.0, last: float = 1.0
) -> tuple[Float[Tensor, "M C D"], Float[Tensor, "M C D"]]:
    """Points on the line from a baseline to the input, and what their gradients are multiplied by.

    They are of the part of the line between `first` and `last`.
    """
    points, shares = (tensor.to(baseline)[:, None, None] for tensor in points_and_shares(steps))
    line = function.inputs - baseline
    return baseline + (first + (last - first) * points) * line, (last - first) * shares * line


def integrated_gradients(
    function: Attributed, steps: int | None, progress: Callable[[int, int], None] = no_progress
) -> Float[Tensor, "T C"]:
    """Their sum over the tokens is log P minus log P at the baseline (Sundararajan et al. 2017).

    log P of a trained model rises on a short part of the path. So without `steps` the path is divided into
    parts, and the part with the largest error is halved, until the errors are at most `TOLERANCE` together or
    there are `MAX_PARTS`, fewer for a long translation (`HALVINGS`). The error of a part is known, because
    log P at its ends is. `progress` gets how many parts are done, and how many there are at most, parts that
    were halved included.
    """
    if steps is not None:
        return function.contributions(*path_and_factors(function, function.baseline, steps))

    @cache
    def log_probs(point: float) -> Float[Tensor, "T"]:
        with torch.no_grad():
            return function.log_probs(
                (function.baseline + point * (function.inputs - function.baseline))[None]
            )[0]

    def part(first: float, last: float) -> tuple[float, Float[Tensor, "T C"]]:
        contributions = function.contributions(
            *path_and_factors(function, function.baseline, POINTS_OF_PART, first, last)
        )
        error = contributions.sum(1) - (log_probs(last) - log_probs(first))
        return float(error.abs().max()), contributions

    most = min(MAX_PARTS, FIRST_PARTS + HALVINGS // function.target.size(1))
    parts: dict[tuple[float, float], tuple[float, Tensor]] = {}
    halved = 0

    def compute(ends: Sequence[float]) -> None:
        for pair in pairwise(ends):
            parts[pair] = part(*pair)
            progress(len(parts) + halved, 2 * most - FIRST_PARTS)

    compute([number / FIRST_PARTS for number in range(FIRST_PARTS + 1)])
    while len(parts) < most and sum(error for error, _ in parts.values()) > TOLERANCE:
        first, last = worst = max(parts, key=lambda pair: parts[pair][0])
        del parts[worst]
        halved += 1
        compute((first, (first + last) / 2, last))
    return torch.stack([contributions for _, contributions in parts.values()]).sum(0)


def sequential_integrated_gradients(function: Attributed, steps: int | None) -> Float[Tensor, "T C"]:
    """Integrated gradients of each token alone, the others as they are (Enguehard 2023).

    Summed over its features, a contribution is log P minus log P with this token at the baseline, as that of
    occlusion; the two differ by the error of the integral. Without `steps` the path is divided as that of
    `integrated_gradients`.
    """
    columns = []
    for place in range(len(function.inputs)):
        baseline = function.inputs.clone()
        baseline[place] = function.baseline[place]
        columns.append(integrated_gradients(replace(function, baseline=baseline), steps)[:, place])
    return torch.stack(columns, 1)


def gradient_shap(function: Attributed, steps: int) -> Float[Tensor, "T C"]:
    """The mean of integrated gradients from random tokens (Lundberg and Lee 2017, Erion et al. 2021).

    The sum over the tokens is log P minus the mean of log P of these sentences, but for the error of the
    integrals, which is larger than that of integrated gradients. All tokens are drawn with the
    same probability, except PAD, START and END, which are not drawn. Each path has steps / 4 points.
    """
    contributions = torch.zeros(function.target.size(1), len(function.inputs)).to(function.inputs)
    for baseline in random_inputs(function, BASELINES, torch.Generator().manual_seed(SEED)):
        contributions += (
            function.contributions(*path_and_factors(function, baseline, -(-steps // 4))) / BASELINES
        )
    return contributions


@torch.no_grad()
def random_inputs(function: Attributed, count: int, generator: torch.Generator) -> Float[Tensor, "B C D"]:
    """Embeddings of random tokens in place of those of the input."""
    embeddings = []
    for embedding, tokens in function.sides:
        chances = torch.ones(count, embedding.num_embeddings)
        chances[:, [PAD, START, END]] = 0
        ids = chances.multinomial(len(tokens), replacement=True, generator=generator)
        embeddings.append(embedding(ids.to(tokens)))
    return torch.cat(embeddings, 1)


def discretized_integrated_gradients(function: Attributed, steps: int) -> Float[Tensor, "T C"]:
    """Gradients on a path from token to token in the space of embeddings (Sanyal and Ren 2021).

    A contribution is the sum of each gradient times the step to the next point. The steps are long, so the
    sum over the tokens may be far from log P minus log P at the baseline.
    """
    tokens = [(embedding, token) for embedding, ids in function.sides for token in ids.tolist()]
    paths = [
        token_path(embedding, token, baseline, steps)
        for (embedding, token), baseline in zip(tokens, function.baseline, strict=True)
    ]
    rows = torch.stack(paths, 1)
    return function.contributions(rows, torch.cat([rows[1:], rows[-1:]]) - rows)


@torch.no_grad()
def token_path(
    embedding: nn.Embedding, token: int, baseline: Float[Tensor, "D"], steps: int
) -> Float[Tensor, "M D"]:
    """Points from a baseline to the embedding of a token; each feature rises, falls, or stays the same.

    Seen from the token, the next one is among the nearest tokens the one that has to be moved least so that
    each of its features lies between the last token's and the baseline. PAD, UNKNOWN, START and END have no
    such path: they jump from the baseline.
    """
    vectors = embedding(torch.arange(embedding.num_embeddings, device=baseline.device))
    if token in SPECIAL:
        return torch.stack([baseline, *[vectors[token]] * (steps - 1)])
    path, visited = [vectors[token]], [token]
    at_baseline = (vectors == baseline).all(1)
    while len(path) < steps - 1:
        distances = (vectors - vectors[token]).norm(dim=1)
        distances[token] = torch.inf
        nearest = distances.topk(min(NEIGHBOURS, len(vectors) - 1), largest=False).indices
        nearest = nearest[~at_baseline[nearest] & ~torch.isin(nearest, torch.tensor(visited).to(nearest))]
        if not len(nearest):
            break
        moved = between(vectors[nearest], baseline, vectors[token], steps)
        token = int(nearest[(vectors[nearest] - moved).norm(dim=1).argmin()])
        visited.append(token)
        path.append(between(vectors[token], baseline, path[-1], steps))
    path += [baseline] * (steps - len(path))
    return torch.stack(path[::-1])


def between(
    vectors: Float[Tensor, "*N D"], baseline: Float[Tensor, "D"], last: Float[Tensor, "D"], steps: int
) -> Float[Tensor, "*N D"]:
    """The same vectors with features that are not between a last point and the baseline moved: to a step
    from the last point to the baseline, of 1 / M of the way.
    """
    lies = (torch.minimum(last, baseline) <= vectors) & (vectors <= torch.maximum(last, baseline))
    return torch.where(lies, vectors, last - (last - baseline) / steps)


def deeplift(function: Attributed) -> Float[Tensor, "T C"]:
    """DeepLIFT's rescale rule (Shrikumar et al. 2017) for the feed-forward sub-layers.

    The slope of their activation functions is the difference of values at the input and at the baseline,
    divided by that of the arguments. All other functions, softmax and layer normalisation among
    them, have their gradient at the input, as in Captum those for which it has no rule. So the contributions
    do not sum to the difference of log P. Raises `DragomanError` for a model without
    feed-forward sub-layers.
    """
    layers = [module for module in function.model.modules() if isinstance(module, FeedForward)]
    if not layers:
        raise DragomanError(
            "DeepLIFT is for models with feed-forward sub-layers, and this model has none; "
            "choose another method."
        )
    rows = torch.stack([function.baseline, function.inputs])
    factors = torch.stack([torch.zeros_like(function.inputs), function.inputs - function.baseline])
    with ExitStack() as stack:
        for layer in layers:
            stack.callback(setattr, layer, "activation", layer.activation)
            layer.activation = rescaled(layer.activation)
        return function.contributions(rows, factors)


def rescaled(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The activation function with other gradients: slopes between the halves of a batch."""

    def straight(argument: Tensor) -> Tensor:
        value, halves = activation(argument), (2, *[1] * (argument.dim() - 1))
        (before, after), (low, high) = argument.detach().chunk(2), value.detach().chunk(2)
        change, same = after - before, (after - before).abs() < SMALLEST
        slope = (high - low) / change.masked_fill(same, 1)
        line = value.detach() + slope.repeat(halves) * (argument - argument.detach())  # the same values
        return torch.where(same.repeat(halves), value, line)

    return straight
