"""Adds positions to embeddings that are multiplied by √d_model, unchanged, or divided by it. Embeddings are
drawn with standard deviation 1 / √d_model, so that the logits, which use the same matrix, have variance 1.
"""

import math

import torch
from torch.nn import functional as F

from dragoman.model.positions import sinusoids
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Embeddings are multiplied by √d_model",
    section="3.4",
    claim="Embeddings are divided by √d_model.",
    claimed_by="study notes",
    topics=("W6",),
)
SEEDS, TOKENS = (1, 2, 3), 200


def measure(d_model: int, factor: float, seed: int) -> dict[str, float]:
    """Sizes of embeddings and positions, and the cosine of two different tokens at one position."""
    torch.manual_seed(seed)
    one, other = torch.randn(2, TOKENS, d_model) * d_model**-0.5 * factor
    positions = sinusoids(TOKENS, d_model)
    return {
        "embeddings": float(one.square().mean().sqrt()),
        "positions": float(positions.square().mean().sqrt()),
        "cosine of two tokens": float(F.cosine_similarity(one + positions, other + positions, dim=-1).mean()),
    }


def run(quick: bool) -> Result:
    rows = []
    for d_model in (64, 128, 256, 512, 1024):
        root = math.sqrt(d_model)
        for name, factor in (("multiplied", root), ("unchanged", 1.0), ("divided", 1 / root)):
            rows.extend(
                {"d_model": d_model, "by √d_model": name, "seed": seed, **measure(d_model, factor, seed)}
                for seed in SEEDS
            )

    def mean(d_model: int, name: str, what: str) -> float:
        found = [row[what] for row in rows if (row["d_model"], row["by √d_model"]) == (d_model, name)]
        return sum(found) / len(found)

    base = {name: mean(512, name, "embeddings") for name in ("multiplied", "unchanged", "divided")}
    alike = {name: mean(512, name, "cosine of two tokens") for name in base}
    picture = curves(
        "Two different tokens at the same position",
        "d_model",
        "cosine",
        {
            f"embeddings {name}" if name == "unchanged" else f"embeddings {name} by √d_model": [
                (d_model, mean(d_model, name, "cosine of two tokens"))
                for d_model in (64, 128, 256, 512, 1024)
            ]
            for name in base
        },
        log_x=True,
    )
    return Result(
        {"Root mean squares, and the cosine": rows},
        picture,
        verdict_of(base["divided"] > 0.5),
        "Section 3.4: “we multiply those weights by √d_model”. For d_model = 512, positions have a root "
        f"mean square of {mean(512, 'multiplied', 'positions'):.2f}. Embeddings multiplied by √d_model have "
        f"{base['multiplied']:.2f}, divided by it {base['divided']:.4f}: two different tokens at one "
        f"position then have a cosine of {alike['divided']:.3f}. With the paper's factor it is "
        f"{alike['multiplied']:.2f}.",
    )
