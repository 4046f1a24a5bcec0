"""Cuts sentence pairs of random lengths into batches with a maximum number of tokens on each side: by length,
as this package does, and in random order. Counts the padding of both. Lengths are log-normal with a median of
20 tokens and a standard deviation σ of their logarithm; the length of a target is that of its source,
multiplied by a random factor around 1. The batches of the paper, about 25,000 tokens on each side, decide.
"""

from itertools import product

from dragoman.text.batches import Batches
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.lengths import Lengths, in_random_order, padding

CLAIM = Claim(
    title="Batches of similar lengths",
    section="5.1",
    claim="Sentence pairs are batched together by approximate length, because other batches are mostly "
    "padding.",
    claimed_by="the paper, section 5.1; the reason: common explanations of it",
)
DEVIATIONS, CAPS, PAPER_CAP = (0.2, 0.4, 0.6), (1000, 4000, 25_000), 25_000


def run(quick: bool) -> Result:
    pairs, rows = 20_000 if quick else 200_000, []
    for deviation, cap, seed in product(DEVIATIONS, CAPS, (1, 2, 3)):
        plan = Batches(Lengths(pairs, seed, deviation), cap, cap, seed)
        shuffled = in_random_order(plan.lengths, cap, seed)
        rows.append(
            {
                "σ": deviation,
                "tokens a side": cap,
                "seed": seed,
                "batches by length": len(plan.plan(0)),
                "padding, %": 100 * padding(plan.plan(0), plan.lengths),
                "batches in random order": len(shuffled),
                "padding in random order, %": 100 * padding(shuffled, plan.lengths),
            }
        )
    names = {"by length": "padding, %", "in random order": "padding in random order, %"}
    mine = [row for row in rows if row["seed"] == 1 and row["σ"] == DEVIATIONS[-1]]
    picture = curves(
        f"Padding, σ = {DEVIATIONS[-1]}",
        "most tokens of a batch on a side",
        "padding, %",
        {name: [(row["tokens a side"], row[key]) for row in mine] for name, key in names.items()},
        log_x=True,
    )
    as_paper = [row for row in rows if row["tokens a side"] == PAPER_CAP]
    kept = max(row["padding, %"] for row in as_paper)
    lost = {d: [row["padding in random order, %"] for row in as_paper if row["σ"] == d] for d in DEVIATIONS}
    mostly = [d for d in DEVIATIONS if min(lost[d]) > 50]
    enough = f"with {PAPER_CAP:,} tokens a side, σ = {' or '.join(map(str, mostly))}"
    condition = f"lengths vary enough: {enough}" if len(mostly) < len(DEVIATIONS) else ""
    shown = ", ".join(f"{min(lost[d]):.1f} to {max(lost[d]):.1f}% (σ = {d})" for d in DEVIATIONS)
    more = [row["batches in random order"] / row["batches by length"] for row in as_paper]
    smaller = [row["padding in random order, %"] for row in rows if row["tokens a side"] == min(CAPS)]
    return Result(
        {f"{pairs:,} pairs": rows},
        picture,
        verdict_of(bool(mostly) and kept < 25, condition),
        f"With {PAPER_CAP:,} tokens a side, as in the paper, at most {kept:.1f}% of the batches by length is "
        f"padding. In random order padding is {shown}, and {min(more):.1f} to {max(more):.1f} times as many "
        f"batches are needed. Smaller batches have less padding: with {min(CAPS):,} tokens a side, "
        f"{min(smaller):.0f} to {max(smaller):.0f}% in random order. The lengths are random numbers, not "
        "those of a corpus.",
    )
