"""Trains Transformers to reverse texts, with one letter in ten of the target replaced at random, so that the
loss cannot fall to 0. Five checkpoints, ten updates apart, are averaged, and the average is compared with the
last and with the best of them on 500 other texts: early, while the loss falls fast, and at the end.
"""

from statistics import mean

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.label_smoothing_in_training import noisy
from dragoman_paper.lab.parts.comparisons import (
    Checkpoint,
    higher_for_each_seed,
    keeper,
    loss_of,
    mean_weights,
)
from dragoman_paper.lab.parts.training import TINY, chance, short, spread, train

CLAIM = Claim(
    title="Averaging the last checkpoints of a training",
    section="6.1",
    claim="A model with the mean weights of the last five checkpoints is better than the last checkpoint.",
    claimed_by="the paper, section 6.1, which averages checkpoints and reports no comparison",
    topics=("T9",),
)
KEPT, EVERY = 5, 10
KINDS = ("last", "best of the five", "average")


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 600, seeds=5)
    places = {"early": updates // 4, "at the end": updates}
    ends = {place: [max(end - EVERY * back, 1) for back in range(KEPT)] for place, end in places.items()}
    rows = []
    for seed in seeds:
        kept: dict[int, Checkpoint] = {}
        train(TINY, noisy, updates, seed, watch=keeper(kept, {*ends["early"], *ends["at the end"]}))
        for place in places:
            checkpoints = [kept[end] for end in ends[place]]
            average = loss_of(mean_weights(checkpoints), TINY, noisy, seed, 500)
            losses = [loss_of(each, TINY, noisy, seed, 500) for each in checkpoints]
            found = dict(zip(KINDS, (losses[0], min(losses), average), strict=True))
            rows.append({"when": place, "seed": seed} | found | {"fall": losses[-1] - losses[0]})

    def of(place: str, column: str) -> list[float]:
        return [row[column] for row in rows if row["when"] == place]

    picture = bars(
        f"Loss of five checkpoints, {EVERY} updates apart",
        "negative log-likelihood per token, nats",
        {f"{row['when']}, seed {row['seed']}": {kind: row[kind] for kind in KINDS} for row in rows},
    )
    better = [place for place in places if higher_for_each_seed(of(place, "last"), of(place, "average"))]
    shown = "; ".join(
        f"{place}, {kind}: {spread(of(place, kind), '.3f')}" for place in places for kind in KINDS
    )
    falls = " and ".join(f"{-mean(of(place, 'fall')):+.3f} {place}" for place in places)
    counts = "; ".join(
        f"{place} for {sum(a > b for a, b in zip(of(place, 'last'), of(place, 'average'), strict=True))}"
        for place in places
    )
    condition = f"the checkpoints are those {' or '.join(better)} of the training"
    against = all(mean(of(place, "average")) >= mean(of(place, "last")) for place in places)
    decided = max(of("early", "last")) < chance(3, 6) and bool(better or against)
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(bool(better), "" if len(better) == len(places) else condition, decided),
        f"Loss in nats a token, after {' and '.join(map(str, places.values()))} updates: {shown}. From the "
        f"first of the five checkpoints to the last the loss changes by {falls}. The average is better than "
        f"the last checkpoint {counts} of {len(seeds)} seeds. The claim needs all seeds; a better "
        "mean alone decides nothing.",
    )
