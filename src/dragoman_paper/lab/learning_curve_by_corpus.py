"""Trains LSTMs with attention and Transformers to reverse texts from corpora of 50 to 3,200 pairs, for the
same number of updates, and measures the accuracy on the corpus itself and on texts that are not in it.
"""

from statistics import mean

import numpy as np

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts import training
from dragoman_paper.lab.parts.comparisons import range_above
from dragoman_paper.lab.parts.training import (
    BY_ARCHITECTURE,
    Pair,
    Task,
    examples,
    reversing,
    short,
    spread,
    token_accuracy,
)

CLAIM = Claim(
    title="LSTM and Transformer by size of the corpus",
    section="4",
    claim="A Transformer makes weaker assumptions than a recurrent model, so it needs more data: from little "
    "data, an LSTM learns more.",
    claimed_by="study notes",
)
SIZES, TASK, PAIRS = (50, 400, 3200), reversing(3, 6), 24
NAMES = ("Transformer", "LSTM")


def task_without(corpus: list[Pair]) -> Task:
    """Random pairs that are not in the corpus."""

    def task(generator: np.random.Generator) -> Pair:
        pair = TASK(generator)
        return task(generator) if pair in corpus else pair

    return task


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 500)
    rows = []
    for size in SIZES:
        for seed in seeds:
            generator = np.random.default_rng([seed, 2])
            corpus = [TASK(generator) for _ in range(size)]
            batches = {
                "of the corpus": training.batch_of(corpus[:200]),
                "held out": examples(task_without(corpus), seed),
            }
            for name in NAMES:
                settings, task = BY_ARCHITECTURE[name], training.pairs_of(corpus)
                model = training.train(settings, task, updates, seed, pairs=PAIRS)
                right = {which: token_accuracy(model, batch) for which, batch in batches.items()}
                rows.append({"model": name, "pairs": size, "seed": seed} | right)

    def of(name: str, size: int, which: str = "held out") -> list[float]:
        return [row[which] for row in rows if (row["model"], row["pairs"]) == (name, size)]

    picture = curves(
        "Held-out tokens right",
        "pairs of the corpus",
        "accuracy of a token",
        {name: [(size, mean(of(name, size))) for size in SIZES] for name in NAMES},
        f"Mean of {len(seeds)} seeds after {updates} updates of {PAIRS} pairs.",
        log_x=True,
    )
    shown = "; ".join(
        f"{size:,} pairs: {spread(of('Transformer', size))} and {spread(of('LSTM', size))}" for size in SIZES
    )
    fitted = " and ".join(spread(of(name, SIZES[0], "of the corpus")) for name in NAMES)
    layers = {name: BY_ARCHITECTURE[name].encoder_layers for name in NAMES}
    decided = min(of("Transformer", SIZES[-1])) > 0.5
    more = range_above(of("LSTM", SIZES[0]), of("Transformer", SIZES[0]))
    return Result(
        {"Accuracy of a token": rows},
        picture,
        verdict_of(more, "texts are reversed, at one learning rate and without dropout", decided=decided),
        f"Accuracy of Transformer and LSTM on held-out texts: {shown}; on the {SIZES[0]} pairs of the corpus "
        f"itself: {fitted}. The claim needs separate ranges of the seeds with {SIZES[0]} pairs. Each of "
        f"these is seen about {updates * PAIRS // SIZES[0]} times. The LSTM has {layers['LSTM']} layer a "
        f"side, the Transformer {layers['Transformer']}. The reason, weaker assumptions, is not tested. For "
        "natural language see the learning curves of two corpora in experiments/README.md.",
    )
