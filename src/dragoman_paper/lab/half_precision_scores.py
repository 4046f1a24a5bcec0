"""Computes q · k in half precision, for queries and keys of growing size. Scores are divided by √d_k after
the product, or the queries before it. Counts infinite scores. For the queries whose scores are finite both
times, compares the softmax weights of the two orders, and both with those of the same queries and keys in
float64. float16 has no number above 65,504, and fewer digits below 6.1e−5. Division by a power of two changes
only the exponent of all other numbers.
"""

import math
from itertools import product

import torch
from torch import Tensor

from dragoman_paper.lab.frame.experiment import Claim, Result, Row, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Scores in float16",
    section="3.2.1",
    claim="In half precision it makes no difference whether the scores are divided by √d_k after the "
    "product, or the queries before it.",
    claimed_by="folklore (the two are equal in exact arithmetic)",
)
WIDTHS, KEYS, MOST, NONE = (32, 64, 128), 64, 0.01, "no finite scores"
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
SCALES = (1e-3, 0.1, 1.0, 4.0, 16.0, 32.0, 64.0, 128.0, 256.0)
SIZE, INFINITE = "standard deviation of q and k", ("infinite after, %", "infinite before, %")
APART, ERRORS = "difference of weights", ("error, divided after", "error, divided before")


def scores(query: Tensor, key: Tensor, before: bool) -> Tensor:
    """[queries, keys], in their type; products are summed in float32, as GPUs do."""
    root = query.size(1) ** 0.5
    dots = ((query / root if before else query).float() @ key.float().T).to(query.dtype)
    return dots if before else dots / root


def compare(scale: float, kind: torch.dtype, d_k: int) -> Row:
    """The two orders, for components with this standard deviation."""
    torch.manual_seed(1)
    query, key = ((scale * torch.randn(KEYS, d_k, dtype=torch.float64)).to(kind) for _ in range(2))
    found = [scores(query, key, before).double() for before in (False, True)]
    finite = torch.stack(found).isfinite().all(0).all(1)
    exact = query.double() @ key.double().T / d_k**0.5
    after, before, true = (each[finite].softmax(1) for each in (*found, exact))
    pairs = {APART: (after, before), ERRORS[0]: (after, true), ERRORS[1]: (before, true)}
    return {name: 100 * float(x.isinf().double().mean()) for name, x in zip(INFINITE, found, strict=True)} | {
        name: float((x - y).abs().max()) if len(x) else NONE for name, (x, y) in pairs.items()
    }


def run(quick: bool) -> Result:
    cases = product(WIDTHS, TYPES, SCALES)
    rows = [{"d_k": d, "type": t, SIZE: scale} | compare(scale, TYPES[t], d) for d, t, scale in cases]
    found = [row for row in rows if row[APART] != NONE]
    powers = [d_k for d_k in WIDTHS if math.frexp(d_k**0.5)[0] == 0.5]
    kinds = [[row for row in found if (row["d_k"] in powers) == power] for power in (True, False)]
    near, far = (max(kind, key=lambda row: row[APART]) for kind in kinds)
    usual = max(row[APART] for row in kinds[1] if row[SIZE] == 1.0)
    half = [row for row in rows if row["type"] == "float16"]
    least = [min((row[SIZE] for row in half if row[name] > 0), default=math.inf) for name in INFINITE]
    conditions = ["√d_k is a power of two, as for the paper's d_k = 64"] * (far[APART] > MOST)
    conditions += ["nothing overflows"] * any(row[INFINITE[0]] != row[INFINITE[1]] for row in rows)
    shown: dict[str, list[tuple[float, float]]] = {}
    for row in found:
        shown.setdefault(f"{row['type']}, d_k = {row['d_k']}", []).append((row[SIZE], row[APART]))
    picture = curves("Softmax weights of the two orders", SIZE, APART, shown, log_x=True)
    return Result(
        {f"{KEYS} queries and keys": rows},
        picture,
        verdict_of(near[APART] <= MOST, ", and ".join(conditions)),
        f"For d_k = {' and '.join(map(str, powers))}, as in the paper, √d_k is a power of two, and the "
        f"softmax weights of the two orders differ by at most {near[APART]:.0e}. For other d_k they differ "
        f"by up to {usual:.3f} if q and k have the standard deviation 1, and by up to {far[APART]:.2f} with "
        f"larger ones (in {far['type']}, d_k = {far['d_k']}, standard deviation {far[SIZE]:g}); there the "
        f"weights of the two orders differ from those in float64 by up to {far[ERRORS[0]]:.2f} and "
        f"{far[ERRORS[1]]:.2f}. In float16, of the sizes tested, scores overflow from a standard deviation "
        f"of {least[0]:g} if the scores are divided, and of {least[1]:g} if the queries are: the undivided "
        "product is √d_k times as large.",
    )
