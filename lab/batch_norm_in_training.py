"""Trains Transformers with layer and with batch normalisation to reverse texts of 2 to 10 letters, in batches
of 4 and of 32 pairs. The loss is measured in two ways: with the statistics of each batch, as in training (“by
batch”), and with the running averages, as in evaluation (“in use”).
"""

from dataclasses import replace
from statistics import mean

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.training import TINY, chance, examples, nll, reversing, short, spread, train

CLAIM = Claim(
    title="Batch normalisation in training",
    section="3.1",
    claim="With sentences of unequal lengths and small batches, batch normalisation trains worse than layer "
    "normalisation, and its loss is higher in evaluation than in training.",
    claimed_by="study notes and tutorials",
)
SIZES = (4, 32)
NORMS = {"LayerNorm": "post", "BatchNorm": "batch"}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 150)
    task, rows = reversing(2, 10), []
    for pairs in SIZES:
        for name, norm in NORMS.items():
            for seed in seeds:
                model = train(replace(TINY, norm=norm), task, updates, seed, pairs=pairs)
                in_use = nll(model, examples(task, seed))
                model.train()  # batches of the size of training, dropout is off
                as_trained = mean(nll(model, examples(task, 10 * seed + n, pairs)) for n in range(20))
                losses = {"in use": in_use, "by batch": as_trained}
                rows.append({"pairs": pairs, "norm": name, "seed": seed} | losses)

    def found(pairs: int, name: str, column: str = "in use") -> list[float]:
        return [row[column] for row in rows if (row["pairs"], row["norm"]) == (pairs, name)]

    picture = bars(
        f"Loss after {updates} updates",
        "nll a token in nats, mean of the seeds",
        {
            f"{pairs} pairs a batch": {
                f"{name}, {column}": mean(found(pairs, name, column))
                for name in NORMS
                for column in ("in use", "by batch")
            }
            for pairs in SIZES
        },
    )
    small = SIZES[0]
    gap, none = (
        [a - b for a, b in zip(found(small, name), found(small, name, "by batch"), strict=True)]
        for name in ("BatchNorm", "LayerNorm")
    )
    shown = "; ".join(
        f"{pairs} pairs: {spread(found(pairs, 'LayerNorm'))} and {spread(found(pairs, 'BatchNorm'))}"
        for pairs in SIZES
    )
    decided = max(found(small, "LayerNorm")) < chance(2, 10)
    worse = min(found(small, "BatchNorm")) > max(found(small, "LayerNorm"))
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(worse and min(gap) > max(0.0, *none), decided=decided),
        f"Loss of layer and batch normalisation in use, in nats a token, by batch size: {shown}. With "
        f"batches of {small} pairs the loss of batch normalisation in use is {spread(gap)} above that with "
        f"a batch's statistics; that of layer normalisation {spread(none)}, because the texts differ. The "
        "claim needs separate ranges of the seeds with small batches.",
    )
