"""Computes exp(x) / Σ exp(x) directly, and after subtracting the largest score, for scores of growing size in
four number types. In exact arithmetic the two are equal.
"""

import math

import torch

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars

CLAIM = Claim(
    title="Softmax without subtracting the maximum",
    section="3.2.1",
    claim="The softmax may be computed as exp(x) / Σ exp(x).",
    claimed_by="folklore (the formula of the softmax)",
)
TYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def error(scores: torch.Tensor, shift: bool) -> float:
    """The largest error of a probability, from the same scores in float64; NaN if one is NaN."""
    exact = scores.double().softmax(-1)
    shifted = scores - scores.max() if shift else scores
    powers = shifted.exp()
    return float((powers / powers.sum()).double().sub(exact).abs().max())


def run(quick: bool) -> Result:
    base = torch.linspace(0, 1, 16, dtype=torch.float64)
    scales = [1, 5, 10, 12, 50, 80, 90, 100, 500, 700, 710, 1000, 10_000]
    rows = []
    for name, kind in TYPES.items():
        plain, shifted = (
            [error((base * scale).to(kind), shift) for scale in scales] for shift in (False, True)
        )
        broken = [scale for scale, each in zip(scales, plain, strict=True) if math.isnan(each)]
        rows.append(
            {
                "type": name,
                "ln of the largest number": round(math.log(torch.finfo(kind).max), 2),
                "first largest score that gives NaN": min(broken) if broken else "none",
                "largest error without NaN": max(each for each in plain if not math.isnan(each)),
                "largest error with the maximum subtracted": max(shifted),
            }
        )
    right = all(row["largest error without NaN"] < 0.02 for row in rows)
    overflows = any(row["first largest score that gives NaN"] != "none" for row in rows)
    shifted_error = max(row["largest error with the maximum subtracted"] for row in rows)
    limits = {row["type"]: row["ln of the largest number"] for row in rows}
    picture = bars(
        "The largest score whose exponential is a number", "score", {"": limits}, "Above it, exp(x) is ∞."
    )
    because = (
        f"exp overflows above ln of the largest number: {limits['float16']:.1f} in float16, "
        f"{limits['float32']:.1f} in float32 and bfloat16, {limits['float64']:.1f} in float64; then ∞ / ∞ is "
        "NaN. With the maximum subtracted, which changes nothing in exact arithmetic, the error of a "
        f"probability is {shifted_error:.1g} at most for every size of scores."
    )
    return Result(
        {"16 scores from 0 to the largest": rows},
        picture,
        verdict_of(
            right,
            f"the scores are below ln of the largest number, {limits['float32']:.1f} in float32"
            if overflows
            else "",
        ),
        because,
    )
