"""Computes the dot product of the sinusoids of every pair of positions. It is compared with its closed form,
Σ cos(k / 10000^(2i/d_model)), where k is the distance, and is searched for distances at which it grows again.
The asymmetry is the largest difference between the products of a position i with i + k and with i − k. The
trend is that of the means of 100 successive distances, up to a distance of 4,000.
"""

import numpy as np

from dragoman.model.sinusoids import sinusoid_table
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Dot products of positions and their distance",
    section="3.5",
    claim="The dot product of two positions is symmetric and decays with their distance.",
    claimed_by="tutorials",
)
WINDOW, LONGEST = 100, 4000


def asymmetry(products: np.ndarray) -> float:
    """The largest difference between the products with the positions k to the right and k to the left."""
    length = len(products)
    found = []
    for i in range(1, length - 1):
        k = min(i, length - 1 - i)
        found.append(np.abs(products[i, i : i + k + 1] - products[i, i - k : i + 1][::-1]).max())
    return float(max(found))


def run(quick: bool) -> Result:
    length = 200 if quick else 1000
    rows, shown, distances = [], {}, np.arange(length)
    for d_model in (64, 128, 512):
        table = sinusoid_table(length, d_model).astype(np.float64)
        products = table @ table.T
        rates = 10000.0 ** -(np.arange(0, d_model, 2) / d_model)
        closed = np.cos(distances[:, None] * rates).sum(-1)
        error = np.abs(products - closed[np.abs(distances[:, None] - distances)]).max()
        means = np.cos(np.arange(LONGEST)[:, None] * rates).sum(-1).reshape(-1, WINDOW).mean(1)
        grows, rises = (np.flatnonzero(np.diff(each) > 0) for each in (closed, means))
        rows.append(
            {
                "d_model": d_model,
                "at distance 0": float(closed[0]),
                "asymmetry": asymmetry(products),
                "error of the closed form": float(error),
                "first distance from which it grows": int(grows[0]) if len(grows) else length,
                "distances at which it grows": f"{len(grows)} of {length - 1}",
                "trend falls up to": WINDOW * int(rises[0] + 1),
                f"means of {WINDOW} distances": ", ".join(f"{mean:.3g}" for mean in means[: rises[0] + 2]),
            }
        )
        shown[f"d_model = {d_model}"] = list(enumerate(closed / closed[0]))
    first = {row["d_model"]: row["first distance from which it grows"] for row in rows}
    ends = ", ".join(f"{distance} (d_model = {d_model})" for d_model, distance in first.items())
    symmetric = all(row["asymmetry"] < 1e-2 for row in rows)
    trend = ", ".join(f"{row['trend falls up to']:,} (d_model = {row['d_model']})" for row in rows)
    condition = f"“decays” means the trend, up to distance {trend}"
    picture = curves(
        "Dot product of two positions",
        "distance",
        "share of the product at distance 0",
        {name: points[:200] for name, points in shown.items()},
    )
    return Result(
        {f"{length} positions": rows},
        picture,
        verdict_of(symmetric and all(row["trend falls up to"] > WINDOW for row in rows), condition),
        "The product depends on the distance alone, so it is symmetric, and does not tell which position is "
        f"first. It falls up to distance {ends}, then rises and falls again. The means of "
        f"{WINDOW} successive distances rise for the first time after distance {trend}.",
    )
