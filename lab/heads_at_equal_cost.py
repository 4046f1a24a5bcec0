"""Trains Transformers of one layer a side with 1, 2 and 8 heads of d_model / h features, which cost the
same. Each target letter is the sum of two source letters, the one at its own place and the one at that place
counted from the end. One head can learn this too; the loss after a short training shows how fast each model
learns.
"""

from dataclasses import replace
from statistics import mean

import numpy as np

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.comparisons import compared
from lab.parts.training import (
    TINY,
    Pair,
    chance,
    examples,
    mean_curve,
    nll,
    recorder,
    short,
    spread,
    train,
    words,
)

CLAIM = Claim(
    title="One head and eight heads at equal cost",
    section="3.2.2",
    claim="At equal total cost, 8 heads learn faster than 1.",
    claimed_by="study notes, after the paper's section 3.2.2 and Table 3, rows A, which are about quality",
)
HEADS, LETTERS = (1, 2, 8), 6


def sums(generator: np.random.Generator) -> Pair:
    """4 to 6 letters, and the sums of those at each place and at the same place from the end."""
    text = np.array(words(generator, int(generator.integers(4, 7)), LETTERS)) - 4
    return (text + 4).tolist(), (4 + (text + text[::-1]) % LETTERS).tolist()


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 180, seeds=8)
    rows, losses = [], {}
    for heads in HEADS:
        for seed in seeds:
            settings = replace(TINY, encoder_layers=1, decoder_layers=1, heads=heads)
            found: list[float] = []
            model = train(settings, sums, updates, seed, watch=recorder(found))
            losses.setdefault(heads, []).append(found)
            rows.append({"heads": heads, "seed": seed, "nll": nll(model, examples(sums, seed))})

    def of(heads: int) -> list[float]:
        return [row["nll"] for row in rows if row["heads"] == heads]

    picture = curves(
        "Learning curves",
        "updates",
        "negative log-likelihood per token, nats",
        {f"h = {heads}": mean_curve(losses[heads], max(updates // 10, 1)) for heads in HEADS},
        f"Mean of {len(seeds)} seeds.",
    )
    shown = "; ".join(f"h = {heads}: {spread(of(heads))}" for heads in HEADS)
    best = min(HEADS, key=lambda heads: mean(of(heads)))
    near = [heads for heads in HEADS if heads != best and compared(of(heads), of(best)) != "higher"]
    one = compared(of(1), of(8))
    decided = max(of(8)) < chance(4, 6, LETTERS) and one != "not clearly different"
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(one == "higher", decided=decided),
        f"Loss after {updates} updates, in nats a token: {shown}. h = {best} has the lowest mean; "
        f"{' and '.join(f'h = {h}' for h in near) or 'none'} of the others may be as good. Compared with 8 "
        f"heads, the loss with 1 head is {one}. In the paper's Table 3, 8 and 16 are best; 1 head has 0.9 "
        "BLEU less.",
    )
