"""Computes the variance over positions of each feature of the sinusoids, for sentences of several lengths,
and counts how many of the first features make up 90% and 99% of the sum.
"""

import numpy as np

from dragoman.model.sinusoids import sinusoid_table
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Which features carry the position",
    section="3.5",
    claim="Only the first features of the sinusoids have much variance over the positions.",
    claimed_by="tutorials",
)
D_MODEL, LENGTHS = 512, (10, 50, 200, 350, 400, 10_000)


def run(quick: bool) -> Result:
    rows, shown = [], {}
    for length in LENGTHS:
        variance = sinusoid_table(length, D_MODEL).astype(np.float64).var(0)
        share = variance.cumsum() / variance.sum()
        rows.append(
            {
                "tokens": length,
                "features with 90%": int((share < 0.9).sum()) + 1,
                "features with 99%": int((share < 0.99).sum()) + 1,
                "least variance of a pair": float(variance.reshape(-1, 2).sum(1).min()),
            }
        )
        shown[f"{length:,} tokens"] = list(enumerate(variance.reshape(-1, 2).mean(1)))
    few, many = rows[1], rows[-1]
    passing = [row["tokens"] for row in rows if row["features with 90%"] < D_MODEL / 2]
    failing = min({*LENGTHS} - {*passing}, default=0)
    least = f"at most {max(passing, default=0):,} tokens; with {failing:,}, the next length tested, it fails"
    picture = curves(
        "Variance over positions of each pair of features",
        "pair of features",
        "variance",
        shown,
        f"d_model = {D_MODEL}.",
    )
    return Result(
        {f"d_model = {D_MODEL}": rows},
        picture,
        verdict_of(bool(passing), "" if len(passing) == len(rows) else f"the sentence has {least}"),
        f"“The first” are fewer than half, and “much” is 90% of the sum. In a sentence of "
        f"{few['tokens']} tokens the first {few['features with 90%']} of {D_MODEL} features have "
        f"90% of the variance; in one of {many['tokens']:,} tokens the first {many['features with 90%']}. No "
        f"pair of features is constant: with {few['tokens']} tokens the least variance of one is "
        f"{few['least variance of a pair']:.0e}.",
    )
