"""Trains Transformers to reverse texts, at the paper's learning rate and a constant one, keeps the weights of
every tenth of the last 50 updates, and compares the mean of the 5 with the last and with the best of them.
"""

from statistics import mean

import torch

from dragoman.model.interface import Model
from dragoman.model.weights import weights
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.training import (
    TINY,
    constant_rate,
    examples,
    fresh,
    nll,
    paper_rate,
    reversing,
    short,
    spread,
    train,
)

CLAIM = Claim(
    title="Averaging the last checkpoints of a training",
    section="6.1",
    claim="The mean of the last five checkpoints is better than the last of them.",
    claimed_by="the paper (section 6.1), which averages them",
    topics=("T9",),
)
TASK, KEPT, EVERY = reversing(3, 6), 5, 10
RATES = {"the paper's rate": paper_rate, "a constant rate": constant_rate}


def loss_of(tensors: dict[str, torch.Tensor], seed: int) -> float:
    """Of a model with these weights, on held-out texts."""
    model = fresh(TINY, seed).eval()
    model.load_state_dict(tensors, strict=False)  # tied embeddings are saved once
    return nll(model, examples(TASK, seed))


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 150)
    rows = []
    for name, rate in RATES.items():
        for seed in seeds:
            kept: list[dict[str, torch.Tensor]] = []

            def watch(step: int, model: Model, _: float, kept: list[dict[str, torch.Tensor]] = kept) -> None:
                if step % EVERY == 0 or quick:
                    kept.append({key: value.clone() for key, value in weights(model).items()})

            train(TINY, TASK, updates, seed, rate, watch=watch)
            last = kept[-KEPT:]
            averaged = {key: torch.stack([each[key] for each in last]).mean(0) for key in last[0]}
            losses = {"average": loss_of(averaged, seed), "last": loss_of(last[-1], seed)}
            losses["best of the five"] = min(loss_of(each, seed) for each in last)
            rows.append({"rate": name, "seed": seed} | losses)

    def of(name: str, which: str) -> list[float]:
        return [row[which] for row in rows if row["rate"] == name]

    kinds = ("last", "best of the five", "average")
    picture = bars(
        f"Loss after {updates} updates",
        "nll a token in nats, mean of the seeds",
        {name: {kind: mean(of(name, kind)) for kind in kinds} for name in RATES},
        log=True,
    )
    better = all(row["average"] < row["last"] for row in rows)
    losses = {f"{kind}, {name}": spread(of(name, kind), ".3f") for name in RATES for kind in kinds}
    shown = "; ".join(f"{name}: {text}" for name, text in losses.items())
    return Result({"Held-out texts": rows}, picture, verdict_of(better), f"Loss in nats a token. {shown}.")
