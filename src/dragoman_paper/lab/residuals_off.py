"""Trains Transformers of 1, 2 and 4 layers a side with and without residual connections on the same texts, to
reverse them. Layer normalisation is kept. “Does not train” means: no better than the lengths of the texts
alone, for every seed.
"""

from dataclasses import replace
from statistics import mean

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.training import TINY, chance, examples, nll, reversing, short, spread, train

CLAIM = Claim(
    title="Training without residual connections",
    section="3.1",
    claim="Without residual connections a Transformer does not train.",
    claimed_by="study notes",
)
DEPTHS, CHANCE = (1, 2, 4), chance(3, 5)


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 150)
    task, rows = reversing(3, 5), []
    for depth in DEPTHS:
        for residual in (True, False):
            settings = replace(TINY, encoder_layers=depth, decoder_layers=depth, residual=residual)
            for seed in seeds:
                loss = nll(train(settings, task, updates, seed), examples(task, seed))
                rows.append({"layers": depth, "residual": str(residual), "seed": seed, "nll": loss})

    def found(depth: int, residual: bool) -> list[float]:
        return [row["nll"] for row in rows if (row["layers"], row["residual"]) == (depth, str(residual))]

    picture = bars(
        f"Loss after {updates} updates",
        "negative log-likelihood per token, nats, mean of the seeds",
        {
            f"{depth} layers a side" if depth > 1 else "1 layer a side": {
                "with residuals": mean(found(depth, True)),
                "without": mean(found(depth, False)),
            }
            for depth in DEPTHS
        },
        f"A model that uses only the lengths has {CHANCE:.2f} nats.",
    )
    fails = [depth for depth in DEPTHS if min(found(depth, False)) > CHANCE]
    shown = "; ".join(
        f"{depth}: {spread(found(depth, True))} and {spread(found(depth, False))}" for depth in DEPTHS
    )
    which = f"{' or '.join(map(str, fails))} layers a side"
    condition = f"the model has {which} and is trained for {updates} updates at this learning rate"
    learned = max(loss for depth in DEPTHS for loss in found(depth, True)) < CHANCE
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(bool(fails), condition, decided=learned),
        f"Loss with and without residuals after {updates} updates, by layers a side: {shown} nats a token. "
        f"A model that knows only the lengths of the texts has {CHANCE:.2f} nats. Without residuals, these "
        f"depths are no better for every seed: {', '.join(map(str, fails)) or 'none'}. Deeper models, "
        "longer trainings and other learning rates are not tested.",
    )
