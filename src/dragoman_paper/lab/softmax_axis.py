"""Computes causal attention with the softmax over the keys of each query (axis −1) and over the queries of
each key (axis 0 of a matrix with a row for each query), and computes the gradient of each output with respect
to each input.
"""

import math

import torch

from dragoman.model.attention import attention, causal_mask
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of

CLAIM = Claim(
    title="The axis of the softmax",
    section="3.2.1",
    claim="The weights of each row are softmax(scores, axis=0).",
    claimed_by="study notes, in their code",
    topics=("W1",),
)
TOKENS, D_K = 8, 16


def attend(x: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention of x [T, K] to itself, and its weights."""
    scores = x @ x.T / math.sqrt(D_K)
    mask = causal_mask(TOKENS, TOKENS, x.device)[0, 0]
    weights = scores.masked_fill(~mask, -torch.inf).softmax(axis)
    return weights @ x, weights


def reach(x: torch.Tensor, axis: int) -> torch.Tensor:
    """[T, T]: the norm of the gradient of output i with respect to input j."""
    jacobian = torch.autograd.functional.jacobian(lambda given: attend(given, axis)[0], x)  # [T, K, T, K]
    return jacobian.permute(0, 2, 1, 3).flatten(2).norm(dim=-1)


def run(quick: bool) -> Result:
    torch.manual_seed(1)
    x = torch.randn(TOKENS, D_K, dtype=torch.float64)
    mask = causal_mask(TOKENS, TOKENS, x.device)
    oracle = attention(*(x[None, None],) * 3, mask)[0][0, 0]
    rows, shown = [], {}
    for axis in (-1, 0):
        output, weights = attend(x, axis)
        gradients = reach(x, axis)
        rows.append(
            {
                "axis": axis,
                "sums of rows, least": float(weights.sum(-1).min()),
                "sums of rows, most": float(weights.sum(-1).max()),
                "difference from equation 1": float((output - oracle).abs().max()),
                "largest gradient of a later token": float(gradients.triu(1).max()),
            }
        )
        shown[f"axis {axis}"] = gradients.numpy()
    right, wrong = rows
    assert right["difference from equation 1"] < 1e-12
    leak = wrong["largest gradient of a later token"]
    picture = matrices(
        "How much each output depends on each input",
        "norm of the gradient",
        shown,
        Side("output"),
        Side("input"),
        "The mask is causal in both.",
    )
    return Result(
        {f"{TOKENS} tokens, d_k = {D_K}": rows},
        picture,
        verdict_of(wrong["difference from equation 1"] < 1e-12),
        f"With axis 0 the rows sum to between {wrong['sums of rows, least']:.2f} and "
        f"{wrong['sums of rows, most']:.2f} instead of 1, and each weight depends on other queries: "
        f"gradients of later tokens reach {leak:.2f} in spite of the causal mask. With axis −1 they are "
        "exactly 0.",
    )
