"""Trains Transformers to reverse texts and keeps the weights before each update. Five checkpoints, ten
updates apart, are averaged, and the average is compared with the last and with the best of them: early, while
the loss falls fast, and at the end.
"""

from statistics import mean

import torch

from dragoman.model.interface import Model
from dragoman.model.weights import weights
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.training import TINY, chance, examples, fresh, nll, reversing, short, spread, train

CLAIM = Claim(
    title="Averaging the last checkpoints of a training",
    section="6.1",
    claim="A model with the mean weights of the last five checkpoints is better than the last checkpoint.",
    claimed_by="the paper, section 6.1, which averages them",
    topics=("T9",),
)
TASK, KEPT, EVERY = reversing(3, 6), 5, 10


def loss_of(tensors: dict[str, torch.Tensor], seed: int) -> float:
    """Of a model with these weights, on other texts than those of training."""
    model = fresh(TINY, seed).eval()
    model.load_state_dict(tensors, strict=False)  # tied embeddings are saved once
    return nll(model, examples(TASK, seed))


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 500)
    places = {"early": updates * 3 // 10, "at the end": updates}
    rows = []
    for seed in seeds:
        kept: dict[int, dict[str, torch.Tensor]] = {}

        def watch(step: int, model: Model, _: float, kept: dict[int, dict[str, torch.Tensor]] = kept) -> None:
            kept[step] = {key: value.clone() for key, value in weights(model).items()}

        train(TINY, TASK, updates, seed, watch=watch)
        for place, end in places.items():
            last = [kept[max(end - EVERY * back, 1)] for back in range(KEPT)]
            averaged = {key: torch.stack([each[key] for each in last]).mean(0) for key in last[0]}
            losses = [loss_of(each, seed) for each in last]
            found = {"last": losses[0], "best of the five": min(losses), "average": loss_of(averaged, seed)}
            rows.append({"when": place, "seed": seed} | found)

    def of(place: str, which: str) -> list[float]:
        return [row[which] for row in rows if row["when"] == place]

    kinds = ("last", "best of the five", "average")
    picture = bars(
        f"Loss of five checkpoints, {EVERY} updates apart",
        "nll a token in nats, mean of the seeds",
        {
            f"{place}, update {end}": {kind: mean(of(place, kind)) for kind in kinds}
            for place, end in places.items()
        },
        log=True,
    )
    better = [
        place for place in places if all(row["average"] < row["last"] for row in rows if row["when"] == place)
    ]
    shown = "; ".join(
        f"{place}, {kind}: {spread(of(place, kind), '.3f')}" for place in places for kind in kinds
    )
    condition = "" if len(better) == len(places) else f"it is taken {' or '.join(better)}"
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(bool(better), condition, decided=max(of("early", "last")) < chance(3, 6)),
        f"Loss in nats a token: {shown}. The claim needs "
        "a lower loss for every seed. While the loss falls fast, the average includes older, worse weights.",
    )
