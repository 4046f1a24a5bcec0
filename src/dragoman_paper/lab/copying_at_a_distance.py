"""Trains decoders to repeat a letter after 1 to 20 tokens. The source does not contain the letter, so the
information has to pass through the decoder, which has layers of width 32: the LSTM one, the others two. Two
convolutions of 3 inputs reach 4 positions back, self-attention restricted to 4 or 10 positions before each
query reaches 8 or 20, and an LSTM all. Changing the first letter shows whether a prediction can depend on it.
"""

from collections.abc import Container
from dataclasses import replace
from itertools import product

import numpy as np

from dragoman.model.interface import Model
from dragoman_paper.lab.frame.experiment import Claim, Result, Row, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import largest_difference
from dragoman_paper.lab.parts.training import (
    BY_ARCHITECTURE,
    TINY,
    Pair,
    examples,
    short,
    spread,
    token_log_probs,
    train,
)

CLAIM = Claim(
    title="Copying at a distance",
    section="4",
    claim="A decoder whose layers together reach less far than the distance cannot copy, whatever it learns.",
    claimed_by="the paper, section 4 (a single convolution does not connect all pairs of positions)",
)
DISTANCES, LETTERS, FILLING, ASK = (1, 2, 4, 8, 20), 8, 22, 23
MODELS = {  # settings, and the largest of the distances that the decoder reaches
    "Transformer": (TINY, 20),
    "restricted, 10 positions": (replace(TINY, neighbourhood=20), 20),
    "restricted, 4 positions": (replace(TINY, neighbourhood=8), 8),
    "ConvS2S": (BY_ARCHITECTURE["ConvS2S"], 4),
    "LSTM": (BY_ARCHITECTURE["LSTM"], 20),
}


def pair(generator: np.random.Generator, distance: int | None = None) -> Pair:
    """A letter that is repeated at this distance, or at any."""
    letter, length = 4 + int(generator.integers(LETTERS)), distance or int(generator.choice(DISTANCES))
    return [ASK], [letter, *[FILLING] * (length - 1), ASK, letter]


def measure(model: Model, distance: int) -> dict[str, float]:
    """The share of letters repeated, and how much log-probabilities depend on the first letter."""
    batch = examples(lambda generator: pair(generator, distance), distance)
    found = token_log_probs(model, batch)[:, -2]  # the last before END
    right = found.argmax(-1) == batch.target_out[:, -2]
    depends = largest_difference(found, found[:1].expand_as(found))
    return {"distance": distance, "accuracy": float(right.float().mean()), "difference by letter": depends}


def accuracies(rows: list[Row], name: str, at: Container[int]) -> list[float]:
    return [float(row["accuracy"]) for row in rows if row["model"] == name and row["distance"] in at]


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 700)
    rows = []
    for (name, (settings, reach)), seed in product(MODELS.items(), seeds):
        model = train(settings, pair, updates, seed, pairs=24)
        own = {"model": name, "reach": reach, "seed": seed}
        rows += [own | measure(model, distance) for distance in DISTANCES]
    far = [row for row in rows if row["distance"] > row["reach"]]
    most, best = (max(row[column] for row in far) for column in ("difference by letter", "accuracy"))
    picture = curves(
        "Share of letters repeated correctly",
        "distance in tokens",
        "accuracy",
        {name: [(at, float(np.mean(accuracies(rows, name, [at])))) for at in DISTANCES] for name in MODELS},
        f"Means of {len(seeds)} seeds. Chance is 1 in {LETTERS}.",
        log_x=True,
    )
    near = {name: accuracies(rows, name, range(1 + reach)) for name, (_, reach) in MODELS.items()}
    decided = all(np.mean(near[name]) > 0.5 for name, (_, reach) in MODELS.items() if reach < DISTANCES[-1])
    return Result(
        {"Accuracy by distance": rows},
        picture,
        verdict_of(most < 1e-4 and best < 0.3, decided=bool(decided)),
        f"Beyond the reach, another first letter changes log-probabilities by {most:.0g} nats at most, and "
        f"{best:.2f} of the letters are repeated at most, as by chance. Within it, shares after {updates} "
        f"updates are: {'; '.join(f'{name} {spread(found)}' for name, found in near.items())}.",
    )
