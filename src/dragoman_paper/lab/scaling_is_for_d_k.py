"""Measures the variance of the unscaled scores of multi-head attention whose queries and keys have components
of variance 1, once with d_model fixed and other numbers of heads, once with d_k fixed and other d_model.
"""

import torch

from dragoman.model.attention import MultiHeadAttention
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="The scaling is for d_k, not for d_model",
    section="3.2.1",
    claim="Scores are divided because d_model is large.",
    claimed_by="study notes",
    topics=("W5",),
)
SEEDS, TOKENS = (1, 2, 3), 64


def variance(d_model: int, d_k: int, seed: int) -> float:
    """Of q · k, with W^Q and W^K such that the components of q and k have variance 1."""
    torch.manual_seed(seed)
    attention = MultiHeadAttention(d_model, d_model // d_k, d_k, d_k)
    torch.nn.init.normal_(attention.query_key_value.weight, std=d_model**-0.5)
    with torch.no_grad():
        query, memory = attention.project(torch.randn(4, TOKENS, d_model))
    return float((query @ memory.keys.transpose(-2, -1)).var())


def run(quick: bool) -> Result:
    sizes = (32, 128, 256) if quick else (32, 64, 128, 256, 512)
    most = sizes[-1]
    rows = [
        {"d_model": d_model, "d_k": d_k, "seed": seed, "variance": variance(d_model, d_k, seed)}
        for d_model, d_k in [*((most, d_k) for d_k in sizes), *((d_model, 32) for d_model in sizes[:-1])]
        for seed in SEEDS
    ]

    def mean(d_model: int, d_k: int) -> float:
        found = [row["variance"] for row in rows if (row["d_model"], row["d_k"]) == (d_model, d_k)]
        return sum(found) / len(found)

    by_k = [(d_k, mean(most, d_k)) for d_k in sizes]
    by_model = [(d_model, mean(d_model, 32)) for d_model in sizes]
    growth_k, growth_model = (points[-1][1] / points[0][1] for points in (by_k, by_model))
    picture = curves(
        "Variance of unscaled scores",
        "d_k, or d_model",
        "variance of q · k",
        {f"d_k grows, d_model = {most}": by_k, "d_model grows, d_k = 32": by_model},
        log_x=True,
        log_y=True,
    )
    return Result(
        {"By size and seed": rows},
        picture,
        verdict_of(growth_model > 2),
        f"From 32 to {most} the variance grows {growth_k:.1f} times with d_k and {growth_model:.2f} times "
        "with d_model: it equals d_k for every d_model, if the components of q and k have variance 1, as the "
        "paper's footnote 4 assumes. With 8 heads, base divides by √64 = 8 and not by "
        "√512.",
    )
