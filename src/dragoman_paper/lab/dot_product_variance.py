"""Draws queries and keys whose components are independent, with mean 0 and variance 1, and computes equation
1 for one query and many keys, with the factor 1 / √d_k and without it. The softmax's gradient is the
largest absolute entry of its Jacobian, diag(p) − p pᵀ. It has a median and a mean over the draws: the mean is
mostly that of the few draws whose two largest scores are nearly equal.
"""

import torch

from dragoman.model.attention import attention
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Why scores are divided by √d_k",
    section="3.2.1",
    claim="If the components of q and k are independent with mean 0 and variance 1, q · k has variance "
    "d_k; for large d_k the softmax then has extremely small gradients, and the factor 1 / √d_k "
    "counteracts this.",
    claimed_by="the paper, section 3.2.1, as a suspicion, and its footnote 4",
    topics=("W5",),
)
SEEDS, KEYS, D_K = (1, 2, 3), 32, 64


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
        largest = jacobian.abs().amax((1, 2))
        found[f"median gradient, {name}"] = float(largest.median())
        found[f"mean gradient, {name}"] = float(largest.mean())
    return found


def run(quick: bool) -> Result:
    draws, widths = (200, (4, 64, 512)) if quick else (4000, (4, 8, 16, 32, 64, 128, 256, 512))
    rows = [{"d_k": d_k, "seed": seed, **measure(d_k, draws, seed)} for d_k in widths for seed in SEEDS]
    names = [name for name in rows[0] if name not in ("d_k", "seed")]
    means = {
        d_k: {name: sum(row[name] for row in rows if row["d_k"] == d_k) / len(SEEDS) for name in names}
        for d_k in widths
    }
    off = max(abs(each["variance, unscaled"] / d_k - 1) for d_k, each in means.items())
    left = {name: means[widths[-1]][name] / means[widths[0]][name] for name in names}
    lost, kept = (left[f"median gradient, {name}"] for name in ("unscaled", "scaled"))
    lost_mean = left["mean gradient, unscaled"]
    without, scaled = (means[D_K][f"median gradient, {name}"] for name in ("unscaled", "scaled"))
    picture = curves(
        "Gradient of the softmax against d_k",
        "d_k",
        "largest entry of the Jacobian",
        {name: [(d_k, each[name]) for d_k, each in means.items()] for name in names if "gradient" in name},
        f"Mean of {len(SEEDS)} seeds with {draws:,} queries each; {KEYS} keys.",
        log_x=True,
    )
    because = (
        f"The variance of q · k is d_k within {off:.1%}. From d_k = {widths[0]} to {widths[-1]} the median "
        f"gradient falls to {lost:.1%} of its size without the factor, and the mean gradient to "
        f"{lost_mean:.0%}; with the factor they stay at {kept:.0%} and {left['mean gradient, scaled']:.0%}. "
        f"At the paper's d_k = {D_K} the median is {without:.3f} without the factor and {scaled:.3f} with it."
    )
    true = off < 0.05 and lost < 0.05 and kept > 0.5
    condition = "" if lost_mean < 0.05 else "for the median query; the mean gradient falls less"
    verdict = verdict_of(true, condition)
    return Result({"By d_k and seed": rows}, picture, verdict, because)
