"""Computes attention where one query, that of a padding position, has all keys masked. Masked scores are set
to −∞, to −1e9, or to −∞ with an output of zeros for such a query, as in this package. A second layer attends
to the output and gives the padding position no weight; then a loss of the other positions is differentiated.
"""

import torch

from dragoman.model.attention import attention
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of

CLAIM = Claim(
    title="A query whose keys are all masked",
    section="3.2.3",
    claim="All keys of a padding query may be masked: its output is not used, so it does no harm.",
    claimed_by="study notes, in their table of masks",
    topics=("W13",),
)
TOKENS, WIDTH = 5, 8


def naive(x: torch.Tensor, mask: torch.Tensor, filling: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Equation 1 with a filling of masked scores."""
    weights = (x @ x.transpose(-2, -1) / WIDTH**0.5).masked_fill(~mask, filling).softmax(-1)
    return weights @ x, weights


def package(x: torch.Tensor, mask: torch.Tensor, _: float) -> tuple[torch.Tensor, torch.Tensor]:
    """This package's equation 1."""
    output, weights = attention(x[None, None], x[None, None], x[None, None], mask[None, None])
    return output[0, 0], weights[0, 0]


def run(quick: bool) -> Result:
    torch.manual_seed(1)
    x = torch.randn(TOKENS, WIDTH, dtype=torch.float64)
    mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    mask[-1], mask[:, -1] = False, False  # the last position is padding, as a query and as a key
    rows, shown = [], {}
    for name, attend, filling in (
        ("−∞, plain softmax", naive, -torch.inf),
        ("−1e9", naive, -1e9),
        ("−∞, then zeros", package, -torch.inf),
    ):
        given = x.clone().requires_grad_()
        first, weights = attend(given, mask, filling)
        second, _ = attend(first, mask, filling)
        second[:-1].sum().backward()
        gradient = given.grad
        rows.append(
            {
                "filling": name,
                "weights of the padding query": f"{weights[-1, 0]:.3g} each",
                "NaN rows after layer 1": int(first.isnan().any(-1).sum()),
                "NaN rows after layer 2": int(second.isnan().any(-1).sum()),
                "NaN rows of the gradient": int(gradient.isnan().any(-1).sum()),
            }
        )
        shown[name] = weights.detach().numpy()
    bad, large, zeros = rows
    harmless = large["NaN rows of the gradient"] == zeros["NaN rows of the gradient"] == 0
    spread = bad["NaN rows after layer 2"]
    picture = matrices(
        "Weights of layer 1, by what masked scores are set to",
        "attention weight",
        shown,
        Side("query"),
        Side("key"),
        f"The last position, {TOKENS}, is padding.",
        across=3,
    )
    verdict = verdict_of(harmless, "the softmax of such a row is not NaN" if spread else "")
    because = (
        f"The softmax of a row of −∞ is NaN, and 0 · NaN is NaN: one such query makes {spread} of {TOKENS} "
        f"rows of the next layer NaN, and {bad['NaN rows of the gradient']} rows of the gradient, although "
        "its weight there is 0. With −1e9 the query gets the mean of all values, with “−∞, then zeros” it "
        "gets zeros; both are harmless."
    )
    return Result({f"{TOKENS} tokens, the last is padding": rows}, picture, verdict, because)
