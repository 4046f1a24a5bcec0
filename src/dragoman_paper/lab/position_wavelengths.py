"""Computes the wavelength of each pair of features from the formula, and compares it with the angle by which
the pair turns from position 0 to position 1 in the package's table. The same is done for the frequencies of
the authors' code.
"""

import math
from itertools import pairwise

from dragoman.model.sinusoids import sinusoid_table
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves

CLAIM = Claim(
    title="Wavelengths of the sinusoids",
    section="3.5",
    claim="The wavelengths form a geometric progression from 2π to 10000 · 2π.",
    claimed_by="the paper, section 3.5",
    topics=("T1",),
)
D_MODEL = 512


def wavelength(pair: int, steps: float) -> float:
    """2π · 10000^(pair / steps); the paper has d_model / 2 steps, the authors' code d_model / 2 − 1."""
    return 2 * math.pi * 10000 ** (pair / steps)


def run(quick: bool) -> Result:
    half = D_MODEL // 2
    forms = {"the paper": half, "the authors' code": half - 1}
    lengths = {name: [wavelength(pair, steps) for pair in range(half)] for name, steps in forms.items()}
    kinds = {"the paper": "sinusoidal-halves", "the authors' code": "sinusoidal-tensor2tensor"}
    rows = []
    for name, own in lengths.items():
        table = sinusoid_table(2, D_MODEL, kinds[name])  # float32; row 1 has the rates as angles
        rates = [math.atan2(table[1, pair], table[1, half + pair]) for pair in range(half)]
        off = max(abs(rate * length / (2 * math.pi) - 1) for rate, length in zip(rates, own, strict=True))
        ratios = [later / former for former, later in pairwise(own)]
        rows.append(
            {
                "form": name,
                "first / 2π": own[0] / (2 * math.pi),
                "last / 2π": round(own[-1] / (2 * math.pi), 2),
                "ratio of neighbours": ratios[0],
                "spread of the ratio": max(ratios) - min(ratios),
                "largest relative error of the table": off,
            }
        )
    geometric = all(row["spread of the ratio"] < 1e-9 for row in rows)
    matches = all(row["largest relative error of the table"] < 1e-4 for row in rows)
    last = rows[0]["last / 2π"]
    theirs, own = lengths["the authors' code"], lengths["the paper"]
    more = [
        (pair, 100 * (one / other - 1)) for pair, (one, other) in enumerate(zip(theirs, own, strict=True))
    ]
    picture = curves(
        f"Wavelengths of the {half} pairs: the authors' code beside the paper",
        "pair of features",
        "wavelength of the code above the paper's, %",
        {f"d_model = {D_MODEL}": more},
    )
    verdict = verdict_of(geometric and matches, "its upper end is left out" if last < 9999.99 else "")
    because = (
        "The progression is geometric and begins at 2π; the last pair of the paper's formula has the "
        f"exponent (d_model − 2) / d_model, so it ends at {last:,.0f} · 2π for d_model = {D_MODEL}. The "
        "authors' code has one step fewer and ends at 10000 · 2π."
    )
    return Result({f"d_model = {D_MODEL}": rows}, picture, verdict, because)
