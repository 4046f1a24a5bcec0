"""Cuts sentence pairs of random lengths into batches with a maximum number of tokens on each side: by length,
as this package does, and in random order. Counts the padding of both. Lengths are log-normal with a median of
20 tokens; the length of a target is that of its source, multiplied by a random factor around 1.
"""

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


def run(quick: bool) -> Result:
    pairs, rows = 20_000 if quick else 200_000, []
    for cap in (1000, 4000, 25_000):
        for seed in (1, 2, 3):
            corpus = Lengths(pairs, seed)
            plan = Batches(corpus, cap, cap, seed)
            shuffled = in_random_order(plan.lengths, cap, seed)
            rows.append(
                {
                    "tokens a side": cap,
                    "seed": seed,
                    "batches by length": len(plan.plan(0)),
                    "padding, %": 100 * padding(plan.plan(0), plan.lengths),
                    "batches in random order": len(shuffled),
                    "padding in random order, %": 100 * padding(shuffled, plan.lengths),
                }
            )
    names = {"by length": "padding, %", "in random order": "padding in random order, %"}
    mine = [row for row in rows if row["seed"] == 1]
    picture = curves(
        "Padding",
        "most tokens of a batch on a side",
        "padding, %",
        {name: [(row["tokens a side"], row[key]) for row in mine] for name, key in names.items()},
        log_x=True,
    )
    kept, lost = (
        max(row["padding, %"] for row in rows),
        min(row["padding in random order, %"] for row in rows),
    )
    more = [row["batches in random order"] / row["batches by length"] for row in rows]
    return Result(
        {f"{pairs:,} pairs": rows},
        picture,
        verdict_of(lost > 50 > 2 * kept),
        f"By length at most {kept:.1f}% of the batches is padding, in random order {lost:.0f}% or more, so "
        f"that {min(more):.1f} to {max(more):.1f} times as many batches are needed, depending on their "
        "size. The lengths are random numbers, not those of a corpus.",
    )
