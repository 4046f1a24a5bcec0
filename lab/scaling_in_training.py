"""Trains Transformers with one head whose queries and keys have 8 or 512 features, to reverse texts, with
scores q · k / √d_k and with q · k.
"""

from dataclasses import replace
from statistics import mean

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.training import TINY, examples, nll, reversing, short, spread, train

CLAIM = Claim(
    title="Unscaled dot products in training",
    section="3.2.1",
    claim="For large d_k a model with unscaled dot products trains worse than one with scaled ones.",
    claimed_by="the paper, section 3.2.1",
)
WIDTHS = (8, 512)
SCORES = {"scaled": None, "unscaled": "dot"}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 150)
    rows = []
    for width in WIDTHS:
        for name, score in SCORES.items():
            settings = replace(TINY, heads=1, d_k=width, attention_score=score)
            for seed in seeds:
                model = train(settings, reversing(3, 5), updates, seed, pairs=24)
                loss = nll(model, examples(reversing(3, 5), seed))
                rows.append({"d_k": width, "scores": name, "seed": seed, "nll": loss})

    def found(width: int, name: str) -> list[float]:
        return [row["nll"] for row in rows if (row["d_k"], row["scores"]) == (width, name)]

    picture = bars(
        f"Loss after {updates} updates",
        "nll a token in nats, mean of the seeds",
        {f"d_k = {width}": {name: mean(found(width, name)) for name in SCORES} for width in WIDTHS},
    )
    shown = "; ".join(
        f"d_k = {width}: {spread(found(width, 'scaled'))} and {spread(found(width, 'unscaled'))}"
        for width in WIDTHS
    )
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(min(found(WIDTHS[-1], "unscaled")) > max(found(WIDTHS[-1], "scaled"))),
        f"Loss with and without scaling after {updates} updates, in nats a token: {shown}. The "
        "claim needs separate ranges of the seeds for the larger d_k.",
    )
