"""Trains small Transformers to reverse texts of 10 letters, for a short time, so that they make errors.
Counts wrong tokens by position: after the reference's prefix, as in training, and after the model's own, as
in translation. The difference of the two in each half of the text is that of their log-odds, because halves
with more errors have larger differences of shares too. The first position, without a prefix, is in neither.
"""

from math import log
from statistics import mean

import torch

from dragoman.search.beam import greedy_search
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.comparisons import higher_for_each_seed
from dragoman_paper.lab.parts.training import (
    GREEDY,
    TINY,
    examples,
    reversing,
    short,
    spread,
    token_log_probs,
    train,
)

CLAIM = Claim(
    title="Teacher forcing compared with the model's own prefix",
    section="3.1",
    claim="A model makes more errors after its own prefix than after the reference's, and the difference "
    "grows towards the end of the text.",
    claimed_by="texts about exposure bias",
)
LENGTH = 10


def log_odds(share: float) -> float:
    """ln(p / (1 − p)); a share of 0 or 1 counts as a tenth of a thousandth from it."""
    bounded = min(max(share, 1e-4), 1 - 1e-4)
    return log(bounded / (1 - bounded))


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 150, seeds=5)
    task, rows = reversing(LENGTH, LENGTH), []
    for seed in seeds:
        model, held_out = train(TINY, task, updates, seed), examples(task, seed, 300)
        forced = token_log_probs(model, held_out).argmax(-1)[:, :LENGTH]
        free = torch.zeros_like(forced)
        for row, (best, *_) in enumerate(greedy_search(model, held_out.source, GREEDY)):
            ids = best.ids[:LENGTH]
            free[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        gold = held_out.target_out[:, :LENGTH]
        for position in range(LENGTH):
            errors = {
                name: float((ids != gold)[:, position].float().mean())
                for name, ids in (("after the reference", forced), ("after its own prefix", free))
            }
            rows.append({"seed": seed, "position": position + 1} | errors)

    def of(name: str, positions: range) -> list[float]:
        return [mean(r[name] for r in rows if r["seed"] == s and r["position"] in positions) for s in seeds]

    names, halves = list(rows[0])[2:], (range(2, 6), range(6, LENGTH + 1))
    picture = curves(
        "Share of wrong tokens",
        "position",
        "share of wrong tokens",
        {name: [(p, mean(of(name, range(p, p + 1)))) for p in range(1, LENGTH + 1)] for name in names},
        f"Mean of {len(seeds)} seeds after {updates} updates.",
    )
    forced_errors, free_errors = (of(name, range(1, LENGTH + 1)) for name in names)
    first, second = (
        [log_odds(b) - log_odds(a) for a, b in zip(of(names[0], half), of(names[1], half), strict=True)]
        for half in halves
    )
    more = higher_for_each_seed(free_errors, forced_errors)
    grows = sum(b > a for a, b in zip(first, second, strict=True))
    growth = "true" if grows == len(seeds) else "not decided" if mean(second) > mean(first) else "not true"
    condition = "" if growth == "true" else f"for the number of errors: that the difference grows is {growth}"
    return Result(
        {"Wrong tokens": rows},
        picture,
        verdict_of(more, condition, decided=max(forced_errors) < 0.5),
        f"The share of wrong tokens is {spread(forced_errors)} after the reference and {spread(free_errors)} "
        f"after the model's own prefix: {'more' if more else 'not more'} for every seed. The difference of "
        f"the log-odds is {spread(first)} in the first half of the text and {spread(second)} in the second; "
        f"it grows for {grows} of {len(seeds)} seeds. The claim of growth needs all seeds.",
    )
