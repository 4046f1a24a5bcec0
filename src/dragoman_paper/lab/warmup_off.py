"""Trains Transformers of 1, 2 and 4 layers a side, post-norm and pre-norm, to reverse texts: once with the
paper's learning rate, once with its highest value from the first update on. After the warm-up the two rates
are the same.
"""

from dataclasses import replace
from itertools import product
from statistics import mean

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts import training
from dragoman_paper.lab.parts.comparisons import range_above
from dragoman_paper.lab.parts.training import (
    TINY,
    WARMUP,
    chance,
    paper_rate,
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
DEPTHS, CHANCE = (1, 2, 4), chance(3, 5)
RATES = {"with warm-up": paper_rate, "without warm-up": training.rate_without_warmup}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200, seeds=5)
    losses: dict[tuple[int, str], list[list[float]]] = {}
    for depth, norm, (name, rate) in product(DEPTHS, ("post", "pre"), RATES.items()):
        settings = replace(TINY, encoder_layers=depth, decoder_layers=depth, norm=norm)
        for seed in seeds:
            found: list[float] = []
            train(settings, reversing(3, 5), updates, seed, rate, pairs=24, watch=training.recorder(found))
            losses.setdefault((depth, f"{norm}-norm, {name}"), []).append(found)
    tail = max(updates // 10, 1)
    last = {key: [mean(found[-tail:]) for found in runs] for key, runs in losses.items()}
    picture = curves(
        f"Learning curves of {DEPTHS[-1]} layers a side, warm-up of {WARMUP} updates",
        "updates",
        "negative log-likelihood per token, nats",
        {
            name: training.mean_curve(runs, tail)
            for (depth, name), runs in losses.items()
            if depth == DEPTHS[-1]
        },
        f"Mean of {len(seeds)} seeds and of {tail} updates.",
    )

    def worse(norm: str) -> list[int]:
        runs = {depth: [last[depth, f"{norm}-norm, {name}"] for name in RATES] for depth in DEPTHS}
        return [depth for depth, (warm, cold) in runs.items() if range_above(cold, warm)]

    found_worse = [depth for depth in worse("post") if depth not in worse("pre")]
    which = f"there are {' or '.join(map(str, found_worse))} layers a side"
    condition = "" if found_worse in ([], list(DEPTHS)) else which
    shown = "; ".join(f"{depth}, {name}: {spread(values)}" for (depth, name), values in last.items())
    learned = all(max(values) < CHANCE for (_, name), values in last.items() if name.endswith("with warm-up"))
    rows = [
        {"layers": depth, "model": name, "seed": seed, "nll": loss}
        for (depth, name), values in last.items()
        for seed, loss in zip(seeds, values, strict=True)
    ]
    warm, cold = (sum(map(rate, range(1, updates + 1))) for rate in RATES.values())
    return Result(
        {"Loss at the end": rows},
        picture,
        verdict_of(bool(found_worse), condition, decided=learned),
        f"The loss of the last {tail} of {updates} updates, in nats a token, by layers a side: {shown}. "
        "“Worse” needs separate ranges of the seeds. A model that knows only the lengths of the texts has "
        f"{CHANCE:.2f} nats. The highest rate is {paper_rate(WARMUP):.3f}. The warm-up is "
        f"{min(WARMUP / updates, 1):.0%} of these updates: without it the rates sum to {cold:.2f} in place "
        f"of {warm:.2f}, so a loss that is not higher may only mean that the model was trained more.",
    )
