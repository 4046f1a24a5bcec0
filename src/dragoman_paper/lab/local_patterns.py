"""Trains three models on texts in which a fixed random table gives each letter from the two letters before
it, except that one letter in five is random: texts cannot be memorised, and only distances 1 and 2 matter.
The source has no information. Self-attention has to learn which positions are the nearest; in convolutions
and recurrent layers this is part of the structure. Each model has the learning rate, of two, with the lower
loss in training.
"""

from itertools import product
from statistics import mean

import numpy as np

from dragoman.model.costs import count_parameters
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts import training
from dragoman_paper.lab.parts.comparisons import range_above
from dragoman_paper.lab.parts.training import (
    BY_ARCHITECTURE,
    VOCABULARY,
    Pair,
    chance,
    mean_curve,
    short,
    spread,
)

CLAIM = Claim(
    title="Local patterns",
    section="4",
    claim="Self-attention learns local patterns worse than recurrent and convolutional layers of its width.",
    claimed_by="study notes",
)
LETTERS, LENGTH, SOURCE, NOISE = 8, 16, 23, 0.2
TABLE = np.random.default_rng(7).integers(LETTERS, size=(LETTERS, LETTERS))
RIGHT = 1 - NOISE + NOISE / LETTERS  # the probability of the letter that the table gives
ENTROPY = -RIGHT * np.log(RIGHT) - (1 - RIGHT) * np.log((1 - RIGHT) / (LETTERS - 1))
LEAST = float((2 * np.log(LETTERS) + (LENGTH - 2) * ENTROPY) / (LENGTH + 1))  # END is never random
RATES = {1: training.paper_rate, 3: lambda step: 3 * training.paper_rate(step)}


def pair(generator: np.random.Generator) -> Pair:
    text = generator.integers(LETTERS, size=LENGTH).tolist()
    for place in range(2, LENGTH):
        if generator.random() > NOISE:
            text[place] = int(TABLE[text[place - 2], text[place - 1]])
    return [SOURCE], [4 + letter for letter in text]


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 450)
    rows, curve, tail, held_out = [], {}, max(updates // 20, 1), training.examples(pair, 0)
    for name, settings in BY_ARCHITECTURE.items():
        trained: dict[int, list[tuple[list[float], float]]] = {factor: [] for factor in RATES}
        for factor, seed in product(RATES, seeds):
            seen: list[float] = []
            watch = training.recorder(seen)
            model = training.train(settings, pair, updates, seed, RATES[factor], watch=watch)
            trained[factor].append((seen, training.nll(model, held_out)))
        best = min(RATES, key=lambda each: mean(mean(seen[-tail:]) for seen, _ in trained[each]))
        curve[name] = mean_curve([seen for seen, _ in trained[best]], tail)
        about = {"model": name, "weights": count_parameters(settings, VOCABULARY, VOCABULARY), "rate": best}
        rows += [about | {"seed": s, "nll": loss} for s, (_, loss) in zip(seeds, trained[best], strict=True)]

    def of(name: str) -> list[float]:
        return [row["nll"] for row in rows if row["model"] == name]

    picture = curves(
        "Training on patterns of two neighbours",
        "update",
        "negative log-likelihood per token, nats",
        curve,
        f"Training batches, mean of {len(seeds)} seeds. The least possible is {LEAST:.2f}.",
    )
    others = [name for name in BY_ARCHITECTURE if name != "Transformer"]
    worse = [name for name in others if range_above(of("Transformer"), of(name))]
    against = all(mean(of("Transformer")) <= mean(of(name)) for name in others)
    shown = "; ".join(f"{name} {spread(of(name), '.4f')}" for name in BY_ARCHITECTURE)
    condition = f"the other model is the {worse[0]}" if len(worse) == 1 else ""
    learned = max(of("Transformer")) < chance(LENGTH, LENGTH, LETTERS)
    verdict = verdict_of(bool(worse), condition, learned and bool(worse or against))
    because = (
        f"After {updates} updates the loss in nats a token, mean and range of the seeds, is: {shown}. The "
        f"least possible is about {LEAST:.4f}. The claim needs separate ranges of the seeds. The LSTM has "
        "one layer a side, the others two."
    )
    return Result({"Other texts": rows}, picture, verdict, because)
