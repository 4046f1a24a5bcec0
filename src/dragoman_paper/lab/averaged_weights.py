"""Compares the model with the mean weights of three checkpoints with their ensemble, the mean of the three
models' probabilities. The checkpoints are a random model in float64 with noise of growing size, the last ones
of a training, ten updates apart, and the last one with noise that gives the same distance of checkpoints.
Their distance is relative to the size of the weights.
"""

from itertools import product

import torch

from dragoman.model.interface import Model
from dragoman.model.weights import weights
from dragoman.text.batches import Batch
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.comparisons import Checkpoint, keeper, mean_weights, noisy
from dragoman_paper.lab.parts.models import largest_difference, random_transformer
from dragoman_paper.lab.parts.training import (
    SEEDS,
    TINY,
    examples,
    reversing,
    short,
    token_accuracy,
    token_log_probs,
    train,
)

CLAIM = Claim(
    title="Averaged checkpoints compared with their ensemble",
    section="6.1",
    claim="A model with the mean of several checkpoints' weights predicts what their ensemble predicts.",
    claimed_by="common explanations of checkpoint averaging (the paper, section 6.1)",
    topics=("T9",),
)
MEMBERS, EVERY, TASK = 3, 10, reversing(3, 6)
NOISES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
AWAY, AVERAGED, ONE = "distance", "averaged − ensemble", "one checkpoint − ensemble"
NOISY, OTHER, ONES = "averaged − ensemble, noise", "other token, averaged, %", "other token, one, %"


def compare(model: Model, members: list[Checkpoint], batch: Batch) -> dict[str, float]:
    """The distance of two checkpoints, and how far the average and one of them are from the ensemble."""
    found, middle = [], mean_weights(members)
    for checkpoint in (*members, middle):
        model.load_state_dict(checkpoint, strict=False)
        found.append(token_log_probs(model, batch)[batch.target_out > 0].exp())
    one, other, mean = (torch.cat([x.flatten() for x in each.values()]) for each in (*members[:2], middle))
    ensemble, row = torch.stack(found[:-1]).mean(0), {AWAY: float((one - other).norm() / mean.norm())}
    for name, share, each in ((AVERAGED, OTHER, found[-1]), (ONE, ONES, found[0])):
        differs = each.argmax(-1) != ensemble.argmax(-1)
        row |= {name: largest_difference(each, ensemble), share: 100 * float(differs.double().mean())}
    return row


def of_training(updates: int, seed: int) -> dict[str, float]:
    kept: dict[int, Checkpoint] = {}
    model = train(TINY, TASK, updates, seed, watch=keeper(kept, range(updates, 0, -EVERY)[:MEMBERS]))
    members, batch = [*kept.values()], examples(TASK, seed, 400)
    row = {"accuracy": token_accuracy(model, batch)} | compare(model, members, batch)
    others = noisy(members[-1], row[AWAY] / 2**0.5, MEMBERS, seed)
    return row | {NOISY: compare(model, others, batch)[AVERAGED]}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 300)
    rows = []
    for size, seed in product(NOISES, SEEDS):
        members = noisy(weights(model := random_transformer(seed=seed)), size, MEMBERS, seed)
        rows.append({"noise": size, "seed": seed} | compare(model, members, examples(TASK, seed, 10)))
    trained = [{"seed": seed} | of_training(updates, seed) for seed in seeds]
    points = {name: [(row[AWAY], row[name]) for row in rows if row["seed"] == 1] for name in (AVERAGED, ONE)}
    points |= {f"{name}, trained": [(row[AWAY], row[name]) for row in trained] for name in (AVERAGED, ONE)}
    titles = "Distance of checkpoints and of predictions", "distance", "largest difference of a probability"
    picture = curves(*titles, points, "With noise: seed 1.", log_x=True, log_y=True)
    near = [all(row[a] <= row[b] / 10 for row in trained) for a, b in ((AVERAGED, ONE), (OTHER, ONES))]
    shown = "; ".join(f"{row[AVERAGED]:.2f}, {row[ONE]:.2f} and {row[AWAY]:.3f}" for row in trained)
    because = (
        "The claim needs the average to differ from the ensemble by at most a tenth of what one checkpoint "
        f"does. In trainings of {updates} updates, the largest differences of a probability, of the average "
        f"and of one, and the distance, are {shown}. Their likeliest token is another in "
        f"{'; '.join(f'{row[OTHER]:.1f} and {row[ONES]:.1f}%' for row in trained)} of the positions. The "
        "steps of a training are not random: after noise that gives the same distance, the average differs "
        f"by {', '.join(f'{row[NOISY]:.2f}' for row in trained)}."
    )
    decided = min(row["accuracy"] for row in trained) > 0.5
    verdict = verdict_of(near[1], "" if near[0] else "it means the likeliest token", decided)
    return Result({"Noise": rows, f"After {updates} updates": trained}, picture, verdict, because)
