"""Computes the dot product of the sinusoids of every pair of positions. It is compared with its closed form,
Σ cos(k / 10000^(2i/d_model)), where k is the distance, and is searched for distances at which it grows again.
"""

import numpy as np

from dragoman.model.sinusoids import sinusoid_table
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves

CLAIM = Claim(
    title="Dot products of positions and their distance",
    section="3.5",
    claim="The dot product of two positions is symmetric and decays with their distance.",
    claimed_by="tutorials",
)


def run(quick: bool) -> Result:
    length = 200 if quick else 1000
    rows, shown = [], {}
    for d_model in (64, 128, 512):
        table = sinusoid_table(length, d_model).astype(np.float64)
        products = table @ table.T
        distances = np.arange(length)
        rates = 10000.0 ** -(np.arange(0, d_model, 2) / d_model)
        closed = np.cos(distances[:, None] * rates).sum(-1)
        error = np.abs(products - closed[np.abs(distances[:, None] - distances)]).max()
        grows = np.flatnonzero(np.diff(closed) > 0)
        rows.append(
            {
                "d_model": d_model,
                "at distance 0": float(closed[0]),
                "asymmetry": float(np.abs(products - products.T).max()),
                "error of the closed form": float(error),
                "first distance from which it grows": int(grows[0]),
                "distances at which it grows": f"{len(grows)} of {length - 1}",
                f"at distance {length - 1}": float(closed[-1]),
            }
        )
        shown[f"d_model = {d_model}"] = list(enumerate(closed / closed[0]))
    first = {row["d_model"]: row["first distance from which it grows"] for row in rows}
    ends = ", ".join(f"{distance} (d_model = {d_model})" for d_model, distance in first.items())
    symmetric = all(row["asymmetry"] == 0 and row["error of the closed form"] < 1e-2 for row in rows)
    trend = all(row[f"at distance {length - 1}"] < row["at distance 0"] / 2 for row in rows)
    picture = curves(
        "Dot product of two positions",
        "distance",
        "share of the product at distance 0",
        {name: points[:200] for name, points in shown.items()},
    )
    return Result(
        {f"{length} positions": rows},
        picture,
        verdict_of(symmetric and trend, f"the distance is at most {ends}, or only the trend is meant"),
        "The product depends on the distance alone, so it is symmetric, and does not tell which position is "
        f"first. It falls up to distance {ends}, then rises and falls again within a falling trend.",
    )
