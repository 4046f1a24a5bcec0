"""Trains Transformers with layer and with batch normalisation to reverse texts of 2 to 10 letters, in batches
of 4 and of 32 pairs, with more updates if batches are small. The loss of the same 20 other batches is
measured in two ways: with the statistics of each batch, as in training (“by batch”), and with the running
averages, as in evaluation (“in use”). The statistics of a batch include later target tokens, so the loss by
batch is lower than that of a translation could be. For each seed, initial weights and texts are the same.
"""

from dataclasses import replace
from statistics import mean

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.comparisons import compared
from lab.parts.training import TINY, chance, examples, nll, reversing, short, spread, train

CLAIM = Claim(
    title="Batch normalisation in training",
    section="3.1",
    claim="With sentences of unequal lengths and small batches, batch normalisation gives a worse model "
    "than layer normalisation, and its loss is higher in evaluation than in training.",
    claimed_by="study notes and tutorials",
)
UPDATES = {4: 600, 32: 150}
"""By the number of pairs in a batch."""
NORMS = {"LayerNorm": "post", "BatchNorm": "batch"}


def run(quick: bool) -> Result:
    task, rows = reversing(2, 10), []
    for pairs, updates in UPDATES.items():
        seeds, count = short(quick, updates, seeds=8)
        for name, norm in NORMS.items():
            for seed in seeds:
                model = train(replace(TINY, norm=norm), task, count, seed, pairs=pairs)
                batches = [examples(task, 10 * seed + number, pairs) for number in range(20)]
                in_use = mean(nll(model, batch) for batch in batches)
                model.train()  # statistics of the batch; dropout is off
                by_batch = mean(nll(model, batch) for batch in batches)
                losses = {"in use": in_use, "by batch": by_batch, "difference": in_use - by_batch}
                rows.append({"pairs": pairs, "updates": count, "norm": name, "seed": seed} | losses)

    def found(pairs: int, name: str, column: str = "in use") -> list[float]:
        return [row[column] for row in rows if (row["pairs"], row["norm"]) == (pairs, name)]

    picture = bars(
        "Loss by the size of the batches in training",
        "nll a token in nats, mean of the seeds",
        {
            f"{pairs} pairs a batch": {
                f"{name}, {column}": mean(found(pairs, name, column))
                for name in NORMS
                for column in ("in use", "by batch")
            }
            for pairs in UPDATES
        },
    )
    small = min(UPDATES)
    worse = compared(found(small, "BatchNorm"), found(small, "LayerNorm"))
    gaps = {pairs: found(pairs, "BatchNorm", "difference") for pairs in UPDATES}
    above_by_batch = compared(found(small, "BatchNorm"), found(small, "BatchNorm", "by batch"))
    shown = "; ".join(
        f"{pairs} pairs: {spread(found(pairs, 'LayerNorm'))} and {spread(found(pairs, 'BatchNorm'))}, by "
        f"batch {spread(found(pairs, 'BatchNorm', 'by batch'))}"
        for pairs in UPDATES
    )
    by_batch = found(small, "BatchNorm", "by batch")
    above = sum(a > b for a, b in zip(by_batch, found(small, "LayerNorm"), strict=True))
    both = {worse, above_by_batch}
    decided = max(found(small, "LayerNorm")) < chance(2, 10) and (both == {"higher"} or "lower" in both)
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(both == {"higher"}, decided=decided),
        f"Loss of layer and of batch normalisation in use, in nats a token, by batch size: {shown}. With "
        f"{small} pairs, the loss of batch normalisation, compared with layer normalisation, is {worse}; "
        f"in use it is {spread(gaps[small])} above its loss by batch. With {max(UPDATES)} pairs this "
        f"difference is {spread(gaps[max(UPDATES)])}. The claim needs both differences with small batches. "
        f"By batch, with small ones, the loss of batch normalisation is higher for {above} of {len(seeds)} "
        "seeds.",
    )
