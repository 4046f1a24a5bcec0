"""Compares the model with the mean weights of three checkpoints with their ensemble, the mean of the three
models' probabilities. The checkpoints are a random model in float64 with noise of growing size, and the last
ones of a training, ten updates apart. Their distance is relative to the size of the weights.
"""

from statistics import geometric_mean

import torch

from dragoman.model.interface import Model
from dragoman.model.weights import weights
from dragoman.text.batches import Batch
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.comparisons import Checkpoint, keeper, mean_weights
from lab.parts.models import largest_difference, random_transformer
from lab.parts.training import SEEDS, TINY, batch_of, examples, reversing, short, token_log_probs, train

CLAIM = Claim(
    title="Averaged checkpoints compared with their ensemble",
    section="6.1",
    claim="A model with the mean of several checkpoints' weights predicts what their ensemble predicts.",
    claimed_by="common explanations of checkpoint averaging (the paper, section 6.1)",
    topics=("T9",),
)
MEMBERS, EVERY, TASK = 3, 10, reversing(3, 6)
NOISES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
AVERAGED, ONE, AWAY = "averaged − ensemble", "one checkpoint − ensemble", "distance"


def compare(model: Model, members: list[Checkpoint], batch: Batch) -> dict[str, float]:
    """The distance of the first two checkpoints, and the largest differences of a probability."""
    found, middle = [], mean_weights(members)
    for checkpoint in (*members, middle):
        model.load_state_dict(checkpoint, strict=False)
        found.append(token_log_probs(model, batch)[batch.target_out > 0].exp())
    one, other, mean = (torch.cat([x.flatten() for x in each.values()]) for each in (*members[:2], middle))
    ensemble = torch.stack(found[:-1]).mean(0)
    from_it = {AVERAGED: largest_difference(found[-1], ensemble), ONE: largest_difference(found[0], ensemble)}
    return {AWAY: float((one - other).norm() / mean.norm())} | from_it


def with_noise(size: float, seed: int) -> dict[str, float]:
    model, members = random_transformer(seed=seed), []
    torch.manual_seed(seed)
    for _ in range(MEMBERS):
        noise = {name: x.square().mean().sqrt() * torch.randn_like(x) for name, x in weights(model).items()}
        members.append({name: x + size * noise[name] for name, x in weights(model).items()})
    return compare(model, members, batch_of([([4, 9, 7, 5, 6], [8, 7, 4, 5])]))


def of_training(updates: int, seed: int) -> dict[str, float]:
    kept: dict[int, Checkpoint] = {}
    model = train(TINY, TASK, updates, seed, watch=keeper(kept, range(updates, 0, -EVERY)[:MEMBERS]))
    return compare(model, list(kept.values()), examples(TASK, seed, 100))


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 300)
    rows = [{"noise": size, "seed": seed} | with_noise(size, seed) for size in NOISES for seed in SEEDS]
    trained = [{"updates": updates, "seed": seed} | of_training(updates, seed) for seed in seeds]

    def means(column: str) -> list[float]:
        return [geometric_mean(row[column] for row in rows if row["noise"] == size) for size in NOISES]

    away, averaged, one = map(means, (AWAY, AVERAGED, ONE))
    close = [n for n, a, b in zip(away, averaged, one, strict=True) if a < b / 10]
    points = {name: list(zip(away, means(name), strict=True)) for name in (AVERAGED, ONE)}
    points |= {f"{name}, trained": [(row[AWAY], row[name]) for row in trained] for name in (AVERAGED, ONE)}
    titles = "Distance of checkpoints and of predictions", "distance", "largest difference of a probability"
    picture = curves(*titles, points, "With noise: means over the seeds.", log_x=True, log_y=True)
    found = "; ".join(f"{row[AVERAGED]:.2f}, {row[ONE]:.2f} and {row[AWAY]:.3f}" for row in trained)
    because = (
        "The claim needs the average to differ from the ensemble by less than a tenth of what one checkpoint "
        f"does. In trainings of {updates} updates, the differences of the average and of one, and the "
        f"distance, are {found}. "
        f"Random noise of {max(close, default=0):.2g} of the weights' size is small enough."
    )
    tables = {"Noise": rows, "Checkpoints of a training": trained}
    return Result(tables, picture, verdict_of(all(x[AVERAGED] < x[ONE] / 10 for x in trained)), because)
