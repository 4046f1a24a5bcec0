"""What each source token contributes to each target token: gradients with respect to its embedding.

Gradient × input (Simonyan et al. 2014), and integrated gradients from an embedding of 0 (Sundararajan et al.
2017). The sum of the latter over the source tokens is log P minus log P with embeddings of 0. Positions are
added in both. Shapes: S source and T target tokens, M points, D = d_model.

The integrals are sums over the points of Gauss and Legendre, which need fewer points than midpoints do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.inspection.inspect import one_model
from dragoman.inspection.inspected import InspectedModel
from dragoman.inspection.inspection import Array
from dragoman.inspection.recording import as_array
from dragoman.model.convolutional import Convolutional
from dragoman.model.symbols import START
from dragoman.model.transformer import build_model
from dragoman.search.beam import next_log_probs
from dragoman.system.errors import DragomanError
from dragoman.translation.analysis import forced_batches
from dragoman.translation.translator import Translator

STEPS = 32  # points on the way from embeddings of 0 to those of the sentence
POINTS = 16  # that are computed at once


@dataclass(frozen=True)
class Attribution:
    """Contributions of source tokens to the log-probabilities of target tokens, in nats."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    gradient_input: Array
    """Gradient × input [T S]."""
    integrated: Array
    """Integrated gradients [T S]."""
    log_probabilities: Array
    """Of the target tokens [T]."""
    baseline: Array
    """The same with embeddings of 0 for the source [T]."""


def attribute(
    translator: Translator, sentence: str, translation: str | Sequence[str], steps: int = STEPS
) -> Attribution:
    """The contributions for a translation, a text or its tokens, by forced decoding.

    Raises `DragomanError` as `Translator.score`, for a blank sentence, and for an ensemble.
    """
    model = differentiable(one_model(translator))
    ((_, source, target),) = forced_batches(translator, [(sentence, translation)], 1)
    if source.size(1) == 1:
        raise DragomanError(
            "The sentence is blank: no token contributes to a translation. Give one with words."
        )
    with torch.no_grad():
        embedded = model.source_embedding(source)[0]
    ends = torch.tensor([0.0, 1.0]).to(embedded)
    (baseline, whole), (_, gradient) = log_probs_and_gradients(model, source, target, ends)
    mean = torch.zeros_like(gradient)  # [T S D]
    points, shares = (each.to(embedded).split(POINTS) for each in points_and_shares(steps))
    for some, of_each in zip(points, shares, strict=True):
        mean += torch.tensordot(of_each, log_probs_and_gradients(model, source, target, some)[1], 1)
    sides = translator.tokenizers.source, translator.tokenizers.target
    pieces = [tuple(side.pieces(ids[0].tolist())) for side, ids in zip(sides, (source, target), strict=True)]
    return Attribution(
        pieces[0],
        pieces[1],
        as_array((gradient * embedded).sum(-1)),
        as_array((mean * embedded).sum(-1)),
        as_array(whole),
        as_array(baseline),
    )


def points_and_shares(steps: int) -> tuple[Float[Tensor, "M"], Float[Tensor, "M"]]:
    """Points between 0 and 1 and their shares of a mean over this interval, by Gauss and Legendre.

    Means of polynomials up to degree 2 · steps − 1 are exact.
    """
    points, weights = np.polynomial.legendre.leggauss(steps)  # of the interval from -1 to 1
    return torch.from_numpy((points + 1) / 2), torch.from_numpy(weights / 2)


def differentiable(model: InspectedModel) -> InspectedModel:
    """A copy of the model without packed maps, which have no gradients.

    Training of ConvS2S divides the gradient of the encoder's output; the copy undoes it.
    """
    sizes = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
    copy = build_model(model.settings, *sizes).to(model.target_embedding.weight)
    copy.load_state_dict(model.state_dict())
    assert isinstance(copy, InspectedModel)
    if isinstance(copy, Convolutional):
        copy.encoder_output.register_forward_hook(undivided(2 * len(copy.decoder)))
    return copy.eval().requires_grad_(requires_grad=False)


def undivided(divisor: int) -> Callable[[nn.Module, object, Tensor], None]:
    """A hook that multiplies the gradient of a module's output, which the model will divide by as much."""

    def hook(module: nn.Module, inputs: object, output: Tensor) -> None:  # noqa: ARG001
        if output.requires_grad:
            output.register_hook(lambda gradient: gradient * divisor)

    return hook


def log_probs_and_gradients(
    model: InspectedModel,
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
    scales: Float[Tensor, "M"],
) -> tuple[Float[Tensor, "M T"], Float[Tensor, "M T S D"]]:
    """Log P of each target token with scaled source embeddings, and its gradients with respect to these."""
    with torch.no_grad():
        embedded = scales[:, None, None] * model.source_embedding(source)
    embedded.requires_grad_()
    log_probs = forced_log_probs(model, embedded, source.expand(len(scales), -1), target)
    gradients = [
        torch.autograd.grad(log_probs[:, token].sum(), embedded, retain_graph=True)[0]
        for token in range(target.size(1))
    ]
    return log_probs.detach(), torch.stack(gradients, 1)


def forced_log_probs(
    model: InspectedModel,
    embedded: Float[Tensor, "M S D"],
    source: Int[Tensor, "M S"],
    target: Int[Tensor, "1 T"],
) -> Float[Tensor, "M T"]:
    """Log P of each target token, with these embeddings in place of the source's."""

    def replaced(module: nn.Module, inputs: object, output: Tensor) -> Tensor:  # noqa: ARG001
        return embedded

    handle = model.source_embedding.register_forward_hook(replaced)
    try:
        state = model.encode(source)
    finally:
        handle.remove()
    targets = target.expand(len(source), -1)
    shifted = torch.cat([torch.full_like(targets[:, :1], START), targets[:, :-1]], 1)
    features, _ = model.decode(shifted, state)
    log_probs = next_log_probs(model, features.flatten(0, 1))
    return log_probs.gather(1, targets.reshape(-1, 1)).view(len(source), -1)
