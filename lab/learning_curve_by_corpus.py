"""Trains LSTMs with attention and Transformers to reverse texts from corpora of 50 to 3,200 pairs, for the
same number of updates, and measures the accuracy on other texts.
"""

from statistics import mean

import numpy as np

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.training import (
    BY_ARCHITECTURE,
    examples,
    pairs_of,
    reversing,
    short,
    spread,
    token_accuracy,
    train,
)

CLAIM = Claim(
    title="LSTM and Transformer by size of the corpus",
    section="4",
    claim="A Transformer makes weaker assumptions than a recurrent model, so it needs more data: from little "
    "data, an LSTM learns more.",
    claimed_by="study notes",
)
SIZES, TASK = (50, 400, 3200), reversing(3, 6)
NAMES = ("Transformer", "LSTM")


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 120)
    rows = []
    for size in SIZES:
        for seed in seeds:
            generator = np.random.default_rng([seed, 2])
            task = pairs_of([TASK(generator) for _ in range(size)])
            for name in NAMES:
                model = train(BY_ARCHITECTURE[name], task, updates, seed, pairs=24)
                accuracy = token_accuracy(model, examples(TASK, seed))
                rows.append({"model": name, "pairs": size, "seed": seed, "accuracy": accuracy})

    def of(name: str, size: int) -> list[float]:
        return [row["accuracy"] for row in rows if (row["model"], row["pairs"]) == (name, size)]

    picture = curves(
        "Tokens right, of other texts",
        "pairs of the corpus",
        "accuracy of a token",
        {name: [(size, mean(of(name, size))) for size in SIZES] for name in NAMES},
        f"Mean of {len(seeds)} seeds after {updates} updates of 24 pairs.",
        log_x=True,
    )
    shown = "; ".join(
        f"{size:,} pairs: {spread(of('Transformer', size))} and {spread(of('LSTM', size))}" for size in SIZES
    )
    few = min(of("LSTM", SIZES[0])) > max(of("Transformer", SIZES[0]))
    many = max(of("Transformer", SIZES[-1])) >= min(of("LSTM", SIZES[-1]))
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(few and many, decided=min(of("Transformer", SIZES[-1])) > 0.5),
        f"Accuracy of Transformer and LSTM: {shown}. The claim needs separate ranges of the seeds with "
        f"{SIZES[0]} pairs. One task with small models shows nothing about natural language.",
    )
