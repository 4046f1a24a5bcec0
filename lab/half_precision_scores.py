"""Computes q · k in float16 for queries and keys of growing size. The scores are divided by √d_k after the
product, or the queries before it. Both are equal in exact arithmetic; float16 has no number above 65,504.
Counts the infinite scores, and compares the scores that are finite both times.
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
D_K, OTHER_D_K, KEYS, SIZE = 64, 48, 64, "standard deviation of q and k"
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
APART = "largest difference of finite scores, share of the largest"


def scores(scale: float, before: bool, kind: torch.dtype, d_k: int = D_K) -> torch.Tensor:
    """Scores [KEYS, KEYS] of queries and keys whose components have this standard deviation."""
    torch.manual_seed(1)
    query, key = (scale * torch.randn(KEYS, d_k, dtype=torch.float64) for _ in range(2))
    if before:
        query = query / d_k**0.5
    product = (query.to(kind).float() @ key.to(kind).float().T).to(kind)  # summed in float32, as GPUs do
    return product if before else product / d_k**0.5


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference of scores that are finite in both, as a share of the largest score."""
    finite = one.isfinite() & other.isfinite()
    return float((one - other)[finite].abs().max() / one[finite].abs().max())


def run(quick: bool) -> Result:
    rows = []
    for scale in (1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0):
        row = {SIZE: scale}
        for name, kind in TYPES.items():
            found = {when: scores(scale, when == "before", kind).double() for when in ("after", "before")}
            for when, each in found.items():
                row[f"{name}, divided {when}: infinite, %"] = 100 * float(each.isinf().double().mean())
            row[f"{name}, {APART}"] = apart(*found.values())
        rows.append(row)

    def first(when: str) -> float:
        return min(
            (row[SIZE] for row in rows if row[f"float16, divided {when}: infinite, %"] > 0), default=0.0
        )

    after, before = first("after"), first("before")
    names = [name for name in rows[0] if name.endswith("infinite, %")]
    worst = {name: max(row[f"{name}, {APART}"] for row in rows) for name in TYPES}
    other = {
        name: apart(*(scores(1.0, when, kind, OTHER_D_K).double() for when in (False, True)))
        for name, kind in TYPES.items()
    }
    alike = all(max(worst[name], other[name]) <= torch.finfo(kind).eps for name, kind in TYPES.items())
    picture = curves(
        f"Scores that overflow, d_k = {D_K}",
        SIZE,
        "infinite scores, %",
        {name.removesuffix(": infinite, %"): [(row[SIZE], row[name]) for row in rows] for name in names},
        log_x=True,
    )
    return Result(
        {f"d_k = {D_K}, {KEYS} queries and keys": rows},
        picture,
        verdict_of(alike, "the unscaled products stay below 65,504" if after != before else ""),
        f"Finite scores with d_k = {D_K}, whose root is a power of two, differ by at most "
        f"{max(worst.values()):g} of the largest; with d_k = {OTHER_D_K} they differ by a rounding, "
        f"{other['float16']:.0e} in float16. If scores are divided, "
        f"they overflow when q and k have a standard deviation of {after:g} or more; if the queries are "
        f"divided, of {before:g} or more. The undivided product is √d_k times as large. bfloat16 has the "
        "range of float32 and overflows in neither case. The softmax of a row with ∞ is NaN.",
    )
