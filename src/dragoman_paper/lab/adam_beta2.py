"""Trains Transformers to reverse texts, with Adam's β2 at 0.98 and at the usual 0.999, each with warm-up and
without it, and compares the losses early and at the end. For each seed, initial weights and texts are equal.
"""

from statistics import mean

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.comparisons import compared
from dragoman_paper.lab.parts.training import (
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
BETAS = (0.98, 0.999)


def condition(worse: dict[tuple[str, int], bool], early: int) -> str:
    """What the verdict is true for, by the name of the rate and the number of updates."""
    if all(is_worse == (end == early) for (_, end), is_worse in worse.items()):
        return f"the training has {early} updates; for more it is not decided"
    cases = " or ".join(f"{end} updates {name}" for (name, end), is_worse in worse.items() if is_worse)
    return f"it means {cases}" * (not all(worse.values()))


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 300, seeds=5)
    early, tail = updates * 3 // 8, max(updates // 25, 1)
    losses: dict[tuple[str, float], list[list[float]]] = {}
    for name, rate in RATES.items():
        for beta2 in BETAS:
            losses[name, beta2] = [[] for _ in seeds]
            for seed, found in zip(seeds, losses[name, beta2], strict=True):
                watch = recorder(found)
                train(TINY, reversing(3, 6), updates, seed, rate, beta2=beta2, pairs=24, watch=watch)

    def of(name: str, end: int, beta2: float) -> list[float]:
        return [mean(found[end - tail : end]) for found in losses[name, beta2]]

    cases = [(name, end) for end in (early, updates) for name in RATES]
    rows = [
        {"rate": name, "updates": end, "seed": seed, "nll, β2 = 0.98": paper, "nll, β2 = 0.999": usual}
        for name, end in cases
        for seed, paper, usual in zip(seeds, *(of(name, end, beta2) for beta2 in BETAS), strict=True)
    ]
    picture = curves(
        "Learning curves",
        "updates",
        "negative log-likelihood per token, nats",
        {f"β2 = {beta2}, {name}": mean_curve(runs, tail) for (name, beta2), runs in losses.items()},
        f"Mean of {len(seeds)} seeds and of {tail} updates.",
        log_y=True,
    )
    found = [compared(of(*case, 0.999), of(*case, 0.98), tests=len(cases)) for case in cases]
    worse = {case: how == "higher" for case, how in zip(cases, found, strict=True)}
    shown = "; ".join(
        f"{end} updates {name}: {' and '.join(spread(of(name, end, beta2), '.3f') for beta2 in BETAS)}"
        for name, end in cases
    )
    decided = any(worse.values()) or "not clearly different" not in found
    decided &= max(of("with warm-up", updates, 0.98)) < chance(3, 6)
    verdict = verdict_of(any(worse.values()), condition(worse, early), decided)
    because = f"Losses with 0.98 and 0.999, means of {tail} updates, after {shown}. In this order, the loss "
    because += f"with 0.999 is {', '.join(found)}. These {len(cases)} tests have an error of 5% together."
    return Result({"Losses": rows}, picture, verdict, because)
