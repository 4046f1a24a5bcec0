"""Cuts sentence pairs of random lengths into batches with a maximum number of tokens on each side: by length,
as this package does, and in random order. Counts the padding of both. Lengths are log-normal with a median of
20 tokens and a standard deviation σ of their logarithm; the length of a target is that of its source,
multiplied by a random factor around 1.
"""

from itertools import product

from dragoman.text.batches import Batches
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.lengths import Lengths, in_random_order, padding

CLAIM = Claim(
    title="Batches of similar lengths",
    section="5.1",
    claim="Sentence pairs are batched together by approximate length, because other batches are mostly "
    "padding.",
    claimed_by="the paper, section 5.1; the reason: common explanations of it",
)
DEVIATIONS = (0.2, 0.4, 0.6)


def run(quick: bool) -> Result:
    pairs, rows = 20_000 if quick else 200_000, []
    for deviation, cap, seed in product(DEVIATIONS, (1000, 4000, 25_000), (1, 2, 3)):
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
    kept = max(row["padding, %"] for row in rows)
    lost = {d: [row["padding in random order, %"] for row in rows if row["σ"] == d] for d in DEVIATIONS}
    mostly = [d for d in DEVIATIONS if min(lost[d]) > 50]
    condition = (
        ""
        if len(mostly) == len(DEVIATIONS)
        else f"lengths vary widely, with σ = {' or '.join(map(str, mostly))}"
    )
    shown = "; ".join(f"σ = {d}: {min(lost[d]):.0f} to {max(lost[d]):.0f}%" for d in DEVIATIONS)
    more = [row["batches in random order"] / row["batches by length"] for row in rows]
    return Result(
        {f"{pairs:,} pairs": rows},
        picture,
        verdict_of(bool(mostly) and kept < 25, condition),
        f"By length at most {kept:.1f}% of the batches is padding, in random order {shown}, depending on the "
        f"size of the batches; {min(more):.1f} to {max(more):.1f} times as many batches are needed. The "
        "lengths are random numbers, not those of a corpus.",
    )
