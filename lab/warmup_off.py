"""Trains Transformers of 4 layers a side, post-norm and pre-norm, to reverse texts: once with the paper's
learning rate, once with its highest value from the first update on. After the warm-up the two rates are the
same.
"""

from dataclasses import replace
from statistics import mean

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.comparisons import range_above
from lab.parts.training import (
    TINY,
    WARMUP,
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
    title="Training without warm-up",
    section="5.3",
    claim="Without warm-up a post-norm Transformer trains worse, and a pre-norm one does not.",
    claimed_by="Xiong et al. 2020",
    topics=("T10",),
)
DEEP = replace(TINY, encoder_layers=4, decoder_layers=4)
CHANCE = chance(3, 5)
RATES = {"with warm-up": paper_rate, "without warm-up": rate_without_warmup}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    losses: dict[str, list[list[float]]] = {}
    for norm in ("post", "pre"):
        for name, rate in RATES.items():
            for seed in seeds:
                found: list[float] = []
                settings, watch = replace(DEEP, norm=norm), recorder(found)
                train(settings, reversing(3, 5), updates, seed, rate, pairs=24, watch=watch)
                losses.setdefault(f"{norm}-norm, {name}", []).append(found)
    tail = max(updates // 10, 1)
    last = {name: [mean(found[-tail:]) for found in runs] for name, runs in losses.items()}
    picture = curves(
        f"Learning curves, warm-up of {WARMUP} updates",
        "updates",
        "nll a token in nats",
        {name: mean_curve(runs, tail) for name, runs in losses.items()},
        f"Mean of {len(seeds)} seeds and of {tail} updates.",
    )
    post, warm = (last[f"post-norm, {rate}"] for rate in ("without warm-up", "with warm-up"))
    worse = range_above(post, warm)
    worse_pre = range_above(last["pre-norm, without warm-up"], last["pre-norm, with warm-up"])
    enough = sum(one <= CHANCE for one in post)
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
        verdict_of(worse and not worse_pre, decided=max(warm) < CHANCE),
        f"The loss of the last {tail} of {updates} updates, in nats a token: {shown}. “Worse” needs separate "
        f"ranges of the seeds. Post-norm without warm-up still trains for {enough} of {len(seeds)} seeds: "
        f"its loss is below that of the lengths of the texts alone, {CHANCE:.2f} nats. The highest rate is "
        f"{paper_rate(WARMUP):.3f}.",
    )
