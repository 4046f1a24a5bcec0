"""Computes exp(x) / Σ exp(x) directly, and after subtracting the largest score, for 16 scores of growing size
in four number types, and for 16 equal scores near the ends of a type's range. In exact arithmetic the two are
equal. An error above 0.02, or a probability that is NaN, counts as wrong.
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
TYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}


LIMIT = 0.02
CONDITION = (
    "the sum of the exponentials is finite and a normal number: for n scores it is enough that the largest "
    "is between ln of the smallest normal number and ln of the largest number − ln n"
)


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
        wrong = [scale for scale, each in zip(scales, plain, strict=True) if not each < LIMIT]
        rows.append(
            {
                "type": name,
                "ln of the largest number": round(math.log(torch.finfo(kind).max), 2),
                "first largest score that is wrong": min(wrong, default="none"),
                "largest error of the others": max((each for each in plain if each < LIMIT), default="none"),
                "largest error with the maximum subtracted": max(shifted),
            }
        )
    equal = []
    for score in (80.0, 88.0, -80.0, -103.0, -110.0):
        powers, error_ = torch.full((16,), score).exp(), error(torch.full((16,), score), False)
        found = {"Σ exp(x)": f"{powers.sum():.3g}", "exp(x) / Σ exp(x)": f"{powers[0] / powers.sum():.4g}"}
        equal.append({"score": score} | found | {"right": "yes" if error_ < LIMIT else "no"})
    found = [row["first largest score that is wrong"] == "none" for row in rows]
    exact = all([*found, *(row["right"] == "yes" for row in equal)])
    shifted_error = max(row["largest error with the maximum subtracted"] for row in rows)
    limits = {row["type"]: row["ln of the largest number"] for row in rows}
    picture = bars(
        "The largest score whose exponential is a number",
        "score",
        {"": limits},
        "Above it, exp(x) is ∞. The sum of n equal exponentials is ∞ from ln n below it.",
    )
    because = (
        f"exp overflows above ln of the largest number: {limits['float16']:.1f} in float16, "
        f"{limits['float32']:.1f} in float32 and bfloat16, {limits['float64']:.1f} in float64; then ∞ / ∞ is "
        "NaN. In float32, 16 scores of 88 have a sum of ∞ and probabilities of 0, and 16 of −110 give 0 / 0, "
        "which is NaN. With the maximum subtracted, which changes nothing in exact arithmetic, the error of "
        f"a probability is {shifted_error:.1g} at most for every size of scores."
    )
    tables = {"16 scores from 0 to the largest": rows, "16 equal scores, float32": equal}
    return Result(
        tables, picture, verdict_of(equal[0]["right"] == "yes", "" if exact else CONDITION), because
    )
