"""Trains four models to repeat a letter after 1 to 20 tokens. The source does not contain the letter, so the
information has to pass through the decoder. The decoder has two layers of width 32, that of the LSTM one. Two
convolutions of 3 inputs reach 4 positions back; self-attention restricted to 4 positions before each query
reaches 8. The LSTM and the convolutions learn this more slowly and are trained for twice as many updates.
"""

from dataclasses import replace
from statistics import mean

import numpy as np

from dragoman.model.interface import Model
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.training import BY_ARCHITECTURE, TINY, Pair, examples, short, spread, token_log_probs, train

CLAIM = Claim(
    title="Copying at a distance",
    section="4",
    claim="Self-attention learns long-range dependencies that recurrent, convolutional and restricted "
    "self-attention layers of the same size do not learn, although they learn short ones.",
    claimed_by="the paper, section 4 (shorter paths make long-range dependencies easier to learn)",
)
DISTANCES, LETTERS, FILLING, ASK = (1, 2, 4, 8, 20), 8, 22, 23
MODELS = BY_ARCHITECTURE | {"restricted Transformer": replace(TINY, neighbourhood=8)}


def pair(generator: np.random.Generator, distance: int) -> Pair:
    letter = 4 + int(generator.integers(LETTERS))
    return [ASK], [letter, *[FILLING] * (distance - 1), ASK, letter]


def accuracy(model: Model, distance: int) -> float:
    batch = examples(lambda generator: pair(generator, distance), distance)
    right = token_log_probs(model, batch).argmax(-1) == batch.target_out
    return float(right[:, -2].float().mean())  # the last before END


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    rows = []
    for name, settings in MODELS.items():
        for seed in seeds:
            count = updates * (1 if name.endswith("Transformer") else 2)
            model = train(settings, lambda g: pair(g, int(g.choice(DISTANCES))), count, seed, pairs=24)
            found = {n: accuracy(model, n) for n in DISTANCES}
            rows += [{"model": name, "seed": seed, "distance": n, "accuracy": found[n]} for n in DISTANCES]

    def of(name: str, distance: int) -> list[float]:
        return [row["accuracy"] for row in rows if (row["model"], row["distance"]) == (name, distance)]

    near, far = ({name: of(name, n) for name in MODELS} for n in (DISTANCES[0], DISTANCES[-1]))
    learnt = [name for name in MODELS if min(near[name]) > 0.9]  # the task at its nearest
    fail = [name for name in learnt if max(far[name]) < min(far["Transformer"]) - 0.1]
    picture = curves(
        "Share of letters repeated correctly",
        "distance in tokens",
        "accuracy",
        {name: [(n, mean(of(name, n))) for n in DISTANCES] for name in MODELS},
        f"Mean of {len(seeds)} seeds. Chance is 1 in {LETTERS}.",
        log_x=True,
    )
    shown = "; ".join(f"{name} {spread(near[name])} and {spread(far[name])}" for name in MODELS)
    condition = f"the other model is the {' or the '.join(fail)}" if len(fail) < len(MODELS) - 1 else ""
    return Result(
        {"Accuracy by distance": rows},
        picture,
        verdict_of(
            min(far["Transformer"]) > 0.9 and bool(fail), condition, decided=min(near["Transformer"]) > 0.5
        ),
        f"After {updates} or {2 * updates} updates, the share of letters repeated at distances "
        f"{DISTANCES[0]} and {DISTANCES[-1]} is: {shown}. The models that learnt the "
        f"shortest distance: {', '.join(learnt) or 'none'}. For others this says nothing about distance.",
    )
