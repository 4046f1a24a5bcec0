"""Looks up values by equation 1 in a dictionary of one-hot keys. The query is one of the keys multiplied by a
sharpness; with sharpness 1 it is the key itself. The result is compared with the value of that key.
"""

import math

import torch

from dragoman.model.attention import attention
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Attention as a dictionary",
    section="3.2",
    claim="Attention is a soft look-up in a dictionary: with one-hot keys, a query in the direction of "
    "a key returns exactly the value of that key.",
    claimed_by="common explanations of queries, keys and values",
)
ENTRIES, D_V = 16, 4


def look_up(sharpness: float, values: torch.Tensor) -> tuple[float, float]:
    """The largest error over all look-ups, and the least weight of the matching key."""
    keys = torch.eye(ENTRIES, dtype=torch.float64)[None, None]
    found, weights = attention(keys * sharpness, keys, values[None, None])
    return float((found[0, 0] - values).abs().max()), float(weights[0, 0].diagonal().min())


def run(quick: bool) -> Result:
    torch.manual_seed(1)
    values = torch.randn(ENTRIES, D_V, dtype=torch.float64)
    sharpness = [1.0, 4.0, 16.0, 64.0, 128.0, 256.0, 1024.0, 4096.0]
    rows = []
    for each in sharpness:
        error, weight = look_up(each, values)
        rows.append({"sharpness": each, "weight of the matching key": weight, "largest error": error})
    exact = [row["sharpness"] for row in rows if row["largest error"] == 0]
    plain = rows[0]
    picture = curves(
        f"Look-ups in a dictionary of {ENTRIES} entries",
        "sharpness of the query",
        "weight of the matching key",
        {"one-hot keys": [(row["sharpness"], row["weight of the matching key"]) for row in rows]},
        log_x=True,
    )
    verdict = verdict_of(
        bool(exact), "the scores are far enough apart, and to rounding" if plain["largest error"] > 0 else ""
    )
    because = (
        "A query that equals a one-hot key has a score only 1 / √d_k above the others. The weight of its "
        f"value is {plain['weight of the matching key']:.2f}, so the result is a mixture of all values. The "
        f"result is exact in float64 from a sharpness of {min(exact, default=math.inf):,.0f} on, "
        "where the other weights are too small to change the sum."
    )
    return Result({f"{ENTRIES} one-hot keys, float64": rows}, picture, verdict, because)
