"""Draws queries and keys whose components are independent, with mean 0 and variance 1, and computes equation
1 for one query and many keys, with the factor 1 / √d_k and without it. The softmax's gradient is the
largest absolute entry of its Jacobian, diag(p) − p pᵀ, of the median draw: the mean is of the few draws whose
two largest scores are nearly equal.
"""

import torch

from dragoman.model.attention import attention
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves

CLAIM = Claim(
    title="Why scores are divided by √d_k",
    section="3.2.1",
    claim="If the components of q and k are independent with mean 0 and variance 1, q · k has variance "
    "d_k; for large d_k the softmax then has extremely small gradients, and the factor 1 / √d_k "
    "counteracts this.",
    claimed_by="the paper, section 3.2.1 and its footnote 4",
    topics=("W5",),
)
SEEDS, KEYS = (1, 2, 3), 32


def measure(d_k: int, draws: int, seed: int) -> dict[str, float]:
    """Variance of the scores and size of the softmax's gradient, without and with the factor."""
    torch.manual_seed(seed)
    query, key = (torch.randn(draws, 1, n, d_k, dtype=torch.float64) for n in (1, KEYS))
    found = {}
    for name, factor in (("unscaled", d_k**0.5), ("scaled", 1.0)):  # equation 1 divides by √d_k
        _, weights = attention(query * factor, key, key)
        p = weights.flatten(0, 2)  # [draws, KEYS]
        jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        found[f"variance, {name}"] = float((query * key).sum(-1).var()) / (1 if name == "unscaled" else d_k)
        found[f"gradient, {name}"] = float(jacobian.abs().amax((1, 2)).median())
    return found


def run(quick: bool) -> Result:
    draws, widths = (200, (4, 64, 512)) if quick else (4000, (4, 8, 16, 32, 64, 128, 256, 512))
    rows = [{"d_k": d_k, "seed": seed, **measure(d_k, draws, seed)} for d_k in widths for seed in SEEDS]
    means = {
        d_k: {name: sum(row[name] for row in rows if row["d_k"] == d_k) / len(SEEDS) for name in rows[0]}
        for d_k in widths
    }
    few, many = means[widths[0]], means[widths[-1]]
    off = max(abs(each["variance, unscaled"] / d_k - 1) for d_k, each in means.items())
    kept = many["gradient, scaled"] / few["gradient, scaled"]
    lost = many["gradient, unscaled"] / few["gradient, unscaled"]
    picture = curves(
        "Gradient of the softmax against d_k",
        "d_k",
        "largest entry of the Jacobian",
        {
            name: [(d_k, each[f"gradient, {name}"]) for d_k, each in means.items()]
            for name in ("unscaled", "scaled")
        },
        f"Mean of {len(SEEDS)} seeds with {draws:,} queries each; {KEYS} keys.",
        log_x=True,
    )
    because = (
        f"The variance of q · k is d_k within {off:.1%}; from d_k = {widths[0]} to {widths[-1]} the gradient "
        f"falls to {lost:.1%} of its size without the factor, and stays at {kept:.0%} with it."
    )
    return Result(
        {"By d_k and seed": rows}, picture, verdict_of(off < 0.05 and lost < 0.05 and kept > 0.5), because
    )
