"""Trains four models on texts in which a fixed random table gives each letter from the two letters before it,
except that one letter in five is random: texts cannot be memorised, and only distances 1 and 2 matter. The
source has no information. Self-attention has to learn which positions are the nearest; in convolutions and
recurrent layers this is part of the structure.
"""

from dataclasses import replace

import numpy as np

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.comparisons import range_above
from lab.parts.training import (
    BY_ARCHITECTURE,
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
)

CLAIM = Claim(
    title="Local patterns",
    section="4",
    claim="Self-attention learns local patterns worse than recurrent and convolutional layers of the same "
    "width.",
    claimed_by="study notes",
)
LETTERS, LENGTH, SOURCE, NOISE = 8, 16, 23, 0.2
TABLE = np.random.default_rng(7).integers(LETTERS, size=(LETTERS, LETTERS))
RIGHT = 1 - NOISE + NOISE / LETTERS  # the probability of the letter that the table gives
ENTROPY = -RIGHT * np.log(RIGHT) - (1 - RIGHT) * np.log((1 - RIGHT) / (LETTERS - 1))
LEAST = float((2 * np.log(LETTERS) + (LENGTH - 2) * ENTROPY) / (LENGTH + 1))  # END is never random
MODELS = BY_ARCHITECTURE | {"restricted Transformer": replace(TINY, neighbourhood=4)}


def pair(generator: np.random.Generator) -> Pair:
    text = generator.integers(LETTERS, size=LENGTH).tolist()
    for place in range(2, LENGTH):
        if generator.random() > NOISE:
            text[place] = int(TABLE[text[place - 2], text[place - 1]])
    return [SOURCE], [4 + letter for letter in text]


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 800)
    rows: list[dict[str, object]] = []
    losses: dict[str, list[list[float]]] = {name: [[] for _ in seeds] for name in MODELS}
    for name, settings in MODELS.items():
        for seed, seen in zip(seeds, losses[name], strict=True):
            model = train(settings, pair, updates, seed, watch=recorder(seen))
            rows.append({"model": name, "seed": seed, "nll": nll(model, examples(pair, 0))})

    def found(name: str) -> list[float]:
        return [row["nll"] for row in rows if row["model"] == name]

    picture = curves(
        "Training on patterns of two neighbours",
        "update",
        "nll a token in nats, of the training batches",
        {name: mean_curve(runs, max(updates // 40, 1)) for name, runs in losses.items()},
        f"Mean of {len(seeds)} seeds. The least possible is {LEAST:.2f}: some letters are random.",
    )
    worse = [name for name in ("ConvS2S", "LSTM") if range_above(found("Transformer"), found(name))]
    shown = "; ".join(f"{name} {spread(found(name), '.4f')}" for name in MODELS)
    condition = f"the other model is the {worse[0]}" if len(worse) == 1 else ""
    decided = max(found("Transformer")) < chance(LENGTH, LENGTH, LETTERS)
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(bool(worse), condition, decided),
        f"After {updates} updates the loss in nats a token, mean and range of the seeds, is: {shown}. The "
        f"least possible is about {LEAST:.4f}. The claim needs separate ranges of the seeds.",
    )
