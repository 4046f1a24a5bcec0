"""Sends states through a stack of residual connections in training, with dropout on the sub-layer's output,
as in section 5.4, LayerNorm(x + Dropout(y)), and with dropout on the normalised sum, Dropout(LayerNorm(x +
y)). The sub-layers are random linear maps.
"""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from dragoman.model.transformer import Residual
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import SMALL

CLAIM = Claim(
    title="The place of dropout in a residual connection",
    section="5.4",
    claim="A sub-layer ends with Dropout(LayerNorm(x + Sublayer(x))).",
    claimed_by="study notes",
    topics=("W2",),
)
WIDTH, DEPTH, P, SEEDS = 256, 12, 0.1, (1, 2, 3)


def states(inside: bool, seed: int) -> list[torch.Tensor]:
    """The states after each of the residual connections, with dropout inside the sum or after the norm."""
    torch.manual_seed(seed)
    settings = replace(SMALL, d_model=WIDTH, dropout=P)
    x, found = torch.randn(1, 200, WIDTH), []
    with torch.no_grad():
        for _ in range(DEPTH):
            residual = Residual(settings).train()
            y = nn.Linear(WIDTH, WIDTH)(x)
            x = residual.after(x, y) if inside else F.dropout(residual.norm(x + y), P)
            found.append(x)
    return found


def run(quick: bool) -> Result:
    rows = []
    for seed in SEEDS:
        paper, notes = states(True, seed), states(False, seed)
        rows.extend(
            {
                "seed": seed,
                "residual connections": depth + 1,
                "exact zeros, paper, %": 100 * float((paper[depth] == 0).double().mean()),
                "exact zeros, notes, %": 100 * float((notes[depth] == 0).double().mean()),
                "variance of a token, paper": float(paper[depth].var(-1, unbiased=False).mean()),
                "variance of a token, notes": float(notes[depth].var(-1, unbiased=False).mean()),
            }
            for depth in range(DEPTH)
        )
    zeros = min(row["exact zeros, notes, %"] for row in rows)
    variance = sum(row["variance of a token, notes"] for row in rows) / len(rows)
    clean = max(row["exact zeros, paper, %"] for row in rows)
    picture = curves(
        f"Features of the residual stream that are exactly zero, P_drop = {P}",
        "residual connections",
        "exact zeros, %",
        {
            "LayerNorm(x + Dropout(y)), the paper": [
                (row["residual connections"], row["exact zeros, paper, %"]) for row in rows[:DEPTH]
            ],
            "Dropout(LayerNorm(x + y))": [
                (row["residual connections"], row["exact zeros, notes, %"]) for row in rows[:DEPTH]
            ],
        },
    )
    return Result(
        {f"{DEPTH} connections of width {WIDTH}": rows},
        picture,
        verdict_of(zeros < 1 and abs(variance - 1) < 0.01),
        "Section 5.4: dropout is applied “to the output of each sub-layer, before it is added to the "
        f"sub-layer input and normalized”. After the norm it sets {zeros:.0f}% of the stream, x included, to "
        f"zero, and a token's variance is {variance:.2f} instead of 1: the next input is not normalised. In "
        f"the paper's order {clean:.0f}% is zero, and x is kept.",
    )
