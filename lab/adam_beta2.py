"""Trains Transformers to reverse texts, with Adam's β2 at the paper's 0.98 and at the usual 0.999, each with
warm-up and without it. For each seed, initial weights and texts are the same.
"""

from statistics import mean

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.training import (
    TINY,
    chance,
    mean_curve,
    paper_rate,
    rate_without_warmup,
    recorder,
    reversing,
    short,
    spread,
    train,
)

CLAIM = Claim(
    title="β2 of 0.98 compared with 0.999",
    section="5.3",
    claim="With Adam's usual β2 of 0.999 in place of the paper's 0.98, a Transformer trains worse.",
    claimed_by="advice on training; the paper, section 5.3, uses 0.98 and gives no reason",
)
RATES = {"with warm-up": paper_rate, "without warm-up": rate_without_warmup}
CONDITIONS = {True: "there is no warm-up", False: "there is a warm-up"}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 150)
    losses: dict[str, list[list[float]]] = {}
    for beta2 in (0.98, 0.999):
        for name, rate in RATES.items():
            for seed in seeds:
                found: list[float] = []
                train(
                    TINY,
                    reversing(3, 6),
                    updates,
                    seed,
                    rate,
                    beta2=beta2,
                    pairs=24,
                    watch=recorder(found),
                )
                losses.setdefault(f"β2 = {beta2}, {name}", []).append(found)
    tail = max(updates // 10, 1)
    last = {name: [mean(found[-tail:]) for found in runs] for name, runs in losses.items()}
    picture = curves(
        "Learning curves",
        "updates",
        "nll a token in nats",
        {name: mean_curve(runs, tail) for name, runs in losses.items()},
        f"Mean of {len(seeds)} seeds and of {tail} updates.",
    )
    worse = {
        rate: min(last[f"β2 = 0.999, {rate}"]) > max(last[f"β2 = 0.98, {rate}"])  # the ranges do not touch
        for rate in RATES
    }
    decided = max(last["β2 = 0.98, with warm-up"]) < chance(3, 6)
    condition = "" if all(worse.values()) else CONDITIONS[worse["without warm-up"]]
    shown = "; ".join(f"{name}: {spread(values)}" for name, values in last.items())
    return Result(
        {
            "Loss at the end": [
                {"model": name, "seed": seed, "nll": loss}
                for name, values in last.items()
                for seed, loss in zip(seeds, values, strict=True)
            ]
        },
        picture,
        verdict_of(any(worse.values()), condition, decided),
        f"The loss of the last {tail} of {updates} updates, in nats a token: {shown}. A difference counts "
        "if the ranges of the seeds do not overlap.",
    )
