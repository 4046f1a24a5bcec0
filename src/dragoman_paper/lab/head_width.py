"""Builds small models, all but the first with a d_k other than d_model / h, and runs each of them once.
Checks which of these widths the attention class of tutorials can have. Base with the widths of Table 3, row
B, is not run: its parameters are counted.
"""

from dataclasses import replace

import torch

from dragoman.model.costs import count_parameters
from dragoman.model.settings import ModelSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import SMALL, random_sentences, random_transformer
from dragoman_paper.lab.parts.tutorial_attention import TutorialAttention

CLAIM = Claim(
    title="The width of a head is free",
    section="3.2.2",
    claim="d_k has to be d_model / h, and h has to divide d_model.",
    claimed_by="most implementations, by an assertion in their code",
    topics=("W14",),
)
VOCABULARY = 37_000


def runs(settings: ModelSettings) -> str:
    """Whether a small model with this d_k and number of heads gives finite numbers."""
    model = random_transformer(settings)
    with torch.no_grad():
        features, _ = model.decode(random_sentences([5, 5]), model.encode(random_sentences([6, 4])))
    return "yes" if bool(features.isfinite().all()) else "no"


def tutorial_can(heads: int, d_k: int) -> str:
    """Whether the class of tutorials has such heads."""
    try:
        return "yes" if TutorialAttention(SMALL.d_model, heads).head_dim == d_k else "no"
    except ValueError:
        return "no"


def run(quick: bool) -> Result:
    rows = []
    for heads, d_k in ((4, 8), (4, 2), (4, 4), (4, 30), (3, 8), (5, 7)):
        settings = replace(SMALL, heads=heads, d_k=d_k, d_v=d_k)
        rows.append(
            {
                "heads": heads,
                "d_k": d_k,
                "runs here": runs(settings),
                "class of tutorials": tutorial_can(heads, d_k),
            }
        )
    sizes = (8, 16, 32, 64, 128)
    base = ModelSettings(d_v=64)
    counts = [(d_k, count_parameters(replace(base, d_k=d_k), VOCABULARY, VOCABULARY) / 1e6) for d_k in sizes]
    possible = sum(row["runs here"] == "yes" for row in rows)
    theirs = sum(row["class of tutorials"] == "yes" for row in rows)
    found = dict(counts)
    table = [{"d_k": d_k, "million parameters": count} for d_k, count in counts]
    picture = curves(
        "Parameters of base with other d_k (16 and 32: Table 3, row B)",
        "d_k",
        "million parameters",
        {"d_v = 64": counts},
        log_x=True,
    )
    return Result(
        {f"d_model = {SMALL.d_model}": rows, f"base with {VOCABULARY:,} tokens": table},
        picture,
        verdict_of(possible == 1),
        f"{possible} of {len(rows)} small models run; the class of tutorials can build {theirs} of them. "
        f"Row B has such widths: with 8 heads, d_k of 64, 32 and 16 give {found[64]:.1f}, {found[32]:.1f} "
        f"and {found[16]:.1f} million parameters. The differences are {found[64] - found[32]:.1f} and "
        f"{found[32] - found[16]:.1f} million; those of the paper's 65, 60 and 58 million are 5 and 2.",
    )
