"""Computes exp(x) / Σ exp(x) directly, and after subtracting the largest score, for 16 scores of growing size
in four number types, and for 16 scores near the ends of the range of float32. In exact arithmetic the two are
equal. An error above 0.02, or a probability that is NaN, counts as wrong.
"""

import math

import torch

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars

CLAIM = Claim(
    title="Softmax without subtracting the maximum",
    section="3.2.1",
    claim="The softmax may be computed as exp(x) / Σ exp(x).",
    claimed_by="folklore (the formula of the softmax)",
)
TYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}
ENDS = ((80.0,) * 2, (88.0,) * 2, (-80.0,) * 2, (-103.0,) * 2, (-103.9, -102.5), (-110.0,) * 2)
"""The first and the last of 16 scores at equal distances."""
LIMIT = 0.02
CONDITION = (
    "the sum of the exponentials is finite and not so small that they are rounded: for n scores it is enough "
    "that the largest is between ln of the smallest normal number and ln of the largest number − ln n"
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
    rows, limits = [], {}
    for name, kind in TYPES.items():
        plain, shifted = ([error((base * n).to(kind), shift) for n in scales] for shift in (False, True))
        wrong = [scale for scale, each in zip(scales, plain, strict=True) if not each < LIMIT]
        limits[name] = round(math.log(torch.finfo(kind).max), 2)
        rows.append(
            {
                "type": name,
                "ln of the largest number": limits[name],
                "first largest score that is wrong": min(wrong, default="none"),
                "largest error of the others": max((each for each in plain if each < LIMIT), default="none"),
                "largest error with the maximum subtracted": max(shifted),
            }
        )
    ends = []
    for first, last in ENDS:
        scores = torch.linspace(first, last, 16)
        numbers = {"Σ exp(x)": float(scores.exp().sum()), "error": error(scores, False)}
        name = (f"{first:g}" if first == last else f"{first:g} to {last:g}").replace("-", "−")
        about = {"scores": name} | {kind: f"{value:.3g}" for kind, value in numbers.items()}
        ends.append(about | {"right": "yes" if numbers["error"] < LIMIT else "no"})
    wrong = [row for row in ends if row["right"] == "no"]
    exact = all(row["first largest score that is wrong"] == "none" for row in rows) and not wrong
    shown = ", ".join(f"{row['scores']} (sum {row['Σ exp(x)']}, error {row['error']})" for row in wrong)
    shifted_error = max(row["largest error with the maximum subtracted"] for row in rows)
    picture = bars(
        "The largest score whose exponential is a number",
        "score",
        {"": limits},
        "Above it, exp(x) is ∞. The sum of n equal exponentials is ∞ from ln n below it.",
    )
    because = (
        f"exp overflows above ln of the largest number: {limits['float16']:.1f} in float16, "
        f"{limits['float32']:.1f} in float32 and bfloat16, {limits['float64']:.1f} in float64; then ∞ / ∞ is "
        f"NaN. In float32 the result is wrong for 16 scores of {shown}. With the maximum subtracted, which "
        "changes nothing in exact arithmetic, the error of a probability is at most "
        f"{shifted_error:.1g} for every size of scores."
    )
    tables = {"16 scores from 0 to the largest": rows, "16 scores, float32": ends}
    verdict = verdict_of(ends[0]["right"] == "yes", "" if exact else CONDITION)
    return Result(tables, picture, verdict, because)
