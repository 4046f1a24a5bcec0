"""Computes the feed-forward sub-layer as two convolutions with kernel size 1, with the same weights, and on
positions in another order.
"""

import torch
from torch.nn import functional as F

from dragoman.model.transformer import FeedForward
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import SMALL, largest_difference

CLAIM = Claim(
    title="The feed-forward sub-layer is two convolutions",
    section="3.3",
    claim="The feed-forward sub-layer is applied to each position separately and identically; it is two "
    "convolutions with kernel size 1.",
    claimed_by="the paper, section 3.3",
)
TOKENS = 9


def run(quick: bool) -> Result:
    rows = []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        network = FeedForward(SMALL).double()
        torch.nn.init.normal_(network.inner.bias)
        torch.nn.init.normal_(network.outer.bias)
        x = torch.randn(2, TOKENS, SMALL.d_model, dtype=torch.float64)
        order = torch.randperm(TOKENS)
        with torch.no_grad():
            output = network(x)
            hidden = F.conv1d(x.mT, network.inner.weight[:, :, None], network.inner.bias).relu()
            convolved = F.conv1d(hidden, network.outer.weight[:, :, None], network.outer.bias).mT
            moved = network(x[:, order])
            changed = x.clone()
            changed[:, 0] += 1
            others = network(changed)[:, 1:]
        rows.append(
            {
                "seed": seed,
                "difference from convolutions": largest_difference(output, convolved),
                "difference after another order": largest_difference(moved, output[:, order]),
                "change of other positions": largest_difference(others, output[:, 1:]),
                "hidden units that are 0, %": 100 * float((hidden == 0).double().mean()),
            }
        )
    worst = max(max(list(row.values())[1:4]) for row in rows)
    picture = matrices(
        "Hidden units of one sentence",
        "value of the hidden unit",
        {"max(0, x W_1 + b_1)": hidden[0].mT.numpy()},
        Side("position", range(TOKENS)),
        Side("hidden unit"),
    )
    return Result(
        {f"d_model = {SMALL.d_model}, d_ff = {SMALL.d_ff}, float64": rows},
        picture,
        verdict_of(worst < 1e-12),
        f"Both forms agree to {worst:.0e}. The order of the positions does not matter, and a change at one "
        "position changes no other.",
    )
