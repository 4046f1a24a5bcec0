"""Computes q · k in half precision, for queries and keys of growing size. Scores are divided by √d_k after
the product, or the queries before it. Counts infinite scores, and compares those that are finite both times.
float16 has no number above 65,504, and fewer digits below 6.1e−5.
"""

import torch

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves

CLAIM = Claim(
    title="Scores in float16",
    section="3.2.1",
    claim="In half precision it makes no difference whether the scores are divided by √d_k after the "
    "product, or the queries before it.",
    claimed_by="folklore (the two are equal in exact arithmetic)",
)
WIDTHS, KEYS, SIZE = (64, 128), 64, "standard deviation of q and k"
WHEN = ("divided after", "divided before")
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
SCALES = (1e-3, 0.01, 0.1, 1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0)
ROUNDINGS = 4  # units of the type's ε that results of the same formula may differ by


def scores(scale: float, before: bool, kind: torch.dtype, d_k: int) -> torch.Tensor:
    """Scores [KEYS, KEYS] of queries and keys whose components have this standard deviation."""
    torch.manual_seed(1)
    query, key = ((scale * torch.randn(KEYS, d_k, dtype=torch.float64)).to(kind) for _ in range(2))
    if before:
        query = query / d_k**0.5
    product = (query.float() @ key.float().T).to(kind)  # summed in float32, as GPUs do
    return product if before else product / d_k**0.5


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference of scores that are finite in both, as a share of the largest finite score."""
    largest = torch.cat([one[one.isfinite()], other[other.isfinite()]]).abs().max()
    return float((one - other)[one.isfinite() & other.isfinite()].abs().max() / largest)


def run(quick: bool) -> Result:
    rows = []
    for d_k in WIDTHS:
        for name, kind in TYPES.items():
            for scale in SCALES:
                after, before = (scores(scale, when, kind, d_k).double() for when in (False, True))
                infinite = {
                    f"infinite, divided {when}, %": 100 * float(each.isinf().double().mean())
                    for when, each in (("after", after), ("before", before))
                }
                difference = apart(after, before) / torch.finfo(kind).eps
                rows.append(
                    {"type": name, "d_k": d_k, SIZE: scale} | infinite | {"difference, ε": difference}
                )

    def overflows(when: str) -> list[float]:
        return [r[SIZE] for r in rows if r["type"] == "float16" and r[f"infinite, {when}, %"] > 0]

    beyond = [row for row in rows if row["difference, ε"] > ROUNDINGS]
    usual = [row["difference, ε"] for row in rows if row not in beyond]
    differ = overflows(WHEN[0]) != overflows(WHEN[1])
    shown = [row for row in rows if (row["type"], row["d_k"]) == ("float16", WIDTHS[0])]
    picture = curves(
        f"Scores that overflow in float16, d_k = {WIDTHS[0]}",
        SIZE,
        "infinite scores, %",
        {when: [(row[SIZE], row[f"infinite, {when}, %"]) for row in shown] for when in WHEN},
        log_x=True,
    )
    small = ", ".join(f"{row[SIZE]:g} ({row['type']}, d_k = {row['d_k']})" for row in beyond) or "none"
    least = [min(overflows(when), default=float("inf")) for when in WHEN]
    return Result(
        {f"{KEYS} queries and keys; differences of finite scores in units of ε": rows},
        picture,
        verdict_of(bool(usual), "nothing overflows or underflows" if differ or beyond else ""),
        f"Finite scores differ by at most {max(usual, default=0):.1f} ε of the largest, except with "
        f"standard deviations of {small}, where float16 has fewer digits. In float16, scores overflow from "
        f"a standard deviation of q and k of {least[0]:g} if the scores are divided, and of {least[1]:g} if "
        "the queries are: the undivided product is √d_k times as large.",
    )
