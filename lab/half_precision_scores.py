"""Computes q · k in float16 for queries and keys of growing size. The scores are divided by √d_k after the
product, or the queries before it. Both are equal in exact arithmetic; float16 has no number above 65,504.
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
    topics=("C22",),
)
D_K, KEYS, SIZE = 64, 64, "standard deviation of q and k"


def scores(scale: float, before: bool, kind: torch.dtype) -> torch.Tensor:
    """Scores [KEYS, KEYS] of queries and keys whose components have this standard deviation."""
    torch.manual_seed(1)
    query, key = (scale * torch.randn(KEYS, D_K, dtype=torch.float64) for _ in range(2))
    if before:
        query = query / D_K**0.5
    product = (query.to(kind).float() @ key.to(kind).float().T).to(kind)  # summed in float32, as GPUs do
    return product if before else product / D_K**0.5


def run(quick: bool) -> Result:
    scales = [1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0]
    rows = []
    for scale in scales:
        row = {SIZE: scale}
        for name, kind in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
            for when in ("after", "before"):
                found = scores(scale, when == "before", kind)
                row[f"{name}, divided {when}: infinite, %"] = 100 * float(found.isinf().double().mean())
        rows.append(row)

    def first(when: str) -> float:
        return min(
            (row[SIZE] for row in rows if row[f"float16, divided {when}: infinite, %"] > 0), default=0.0
        )

    after, before = first("after"), first("before")
    names = [name for name in rows[0] if name != SIZE]
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
        verdict_of(True, "the unscaled products stay below 65,504" if after != before else ""),
        f"If the scores are divided, they overflow when q and k have a standard deviation of {after:g} or "
        f"more; if the queries are divided, of {before:g} or more. The undivided product is √d_k times as "
        "large. bfloat16 has the range of float32 and overflows in neither case. The softmax of a row with "
        "∞ is NaN.",
    )
