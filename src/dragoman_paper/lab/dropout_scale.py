"""Applies PyTorch's dropout, which this package uses, to a vector of ones, in training and in evaluation, and
compares the means of three rules: survivors divided by 1 − p, unchanged, and multiplied by 1 − p.
"""

import torch
from torch import nn

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars

CLAIM = Claim(
    title="What dropout does to the values that it keeps",
    section="5.4",
    claim="Dropout with P_drop = 0.1 multiplies the remaining activations by 0.9.",
    claimed_by="some explanations; the study notes rightly say that it divides by 0.9",
    topics=("W7",),
)
P, SEEDS = 0.1, (1, 2, 3)


def run(quick: bool) -> Result:
    size = 100_000 if quick else 2_000_000
    rows = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        ones = torch.ones(size, dtype=torch.float64)
        dropped = nn.Dropout(P).train()(ones)
        survivors = dropped[dropped != 0]
        share = len(survivors) / size
        rows.append(
            {
                "seed": seed,
                "survivors, %": 100 * share,
                "value of survivors": float(survivors.max()),
                "other values": int((survivors != survivors[0]).sum()),
                "mean, divided by 1 − p": float(dropped.mean()),
                "mean, unchanged": share,
                "mean, multiplied by 1 − p": share * (1 - P),
                "in evaluation": float(nn.Dropout(P).eval()(ones).max()),
            }
        )
    value = rows[0]["value of survivors"]
    alike = all(row["value of survivors"] == value and row["other values"] == 0 for row in rows)
    names = ("mean, divided by 1 − p", "mean, unchanged", "mean, multiplied by 1 − p")
    picture = bars(
        f"Mean of ones after dropout with p = {P}",
        "mean in training; in evaluation it is 1",
        {"": {name.removeprefix("mean, "): sum(row[name] for row in rows) / len(rows) for name in names}},
    )
    return Result(
        {f"{size:,} ones": rows},
        picture,
        verdict_of(alike and abs(value - (1 - P)) < 1e-9),
        f"Every survivor is {value:.6f}, and 1 / 0.9 is {1 / (1 - P):.6f}. The mean in training is "
        f"{rows[0]['mean, divided by 1 − p']:.3f}, so evaluation needs no factor. Multiplied by 0.9, it "
        f"would be {rows[0]['mean, multiplied by 1 − p']:.2f}. In Srivastava et al. 2014 survivors stay "
        "unchanged, and 0.9 is the factor of the weights in evaluation.",
    )
