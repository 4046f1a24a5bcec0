"""Trains Transformers with untied and three-way tied embeddings to reverse texts, whose letters are the same
in source and target, or all different, as in two languages with scripts of their own. The loss is measured
early and at the end of the training.
"""

from dataclasses import replace
from itertools import product
from statistics import mean

import numpy as np

from dragoman.model.costs import count_parameters
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.comparisons import Checkpoint, compared, half_width, keeper, loss_of
from dragoman_paper.lab.parts.training import TINY, VOCABULARY, Pair, chance, reversing, short, spread, train

CLAIM = Claim(
    title="Tied embeddings in training",
    section="3.4",
    claim="One matrix for both embeddings and the output projection costs no quality.",
    claimed_by="Press and Wolf 2017, to whom the paper refers in section 3.4",
)
LETTERS, TIED = (VOCABULARY - 4) // 2, ("none", "all")
MARGIN = 0.02  # nats: a smaller cost counts as none


def other_letters(generator: np.random.Generator) -> Pair:
    """A text and its reverse, in which each letter has a counterpart that no source contains."""
    source, target = reversing(3, 5, LETTERS)(generator)
    return source, [letter + LETTERS for letter in target]


TASKS = {"the same letters": reversing(3, 5, LETTERS), "other letters": other_letters}


def upper_end(tied: list[float], untied: list[float]) -> float:
    """The upper end of the 95 % interval of the mean cost."""
    costs = [one - other for one, other in zip(tied, untied, strict=True)]
    return mean(costs) + half_width(costs)


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 480, seeds=5)
    ends, rows = (updates // 4, updates), []
    for (name, task), tied, seed in product(TASKS.items(), TIED, seeds):
        settings, kept = replace(TINY, tied=tied), dict[int, Checkpoint]()
        train(settings, task, updates, seed, pairs=24, watch=keeper(kept, ends))
        size = count_parameters(settings, VOCABULARY, VOCABULARY)
        about = {"letters": name, "tied": tied, "parameters": size, "seed": seed}
        rows += [about | {"updates": n, "nll": loss_of(kept[n], settings, task, seed)} for n in ends]

    def found(name: str, end: int, tied: str) -> list[float]:
        return [r["nll"] for r in rows if (r["letters"], r["updates"], r["tied"]) == (name, end, tied)]

    picture = bars(
        f"Loss after {' and '.join(map(str, ends))} updates",
        "negative log-likelihood per token, nats, mean of the seeds",
        {f"{n}, {end}": {f"tied: {t}": mean(found(n, end, t)) for t in TIED} for n in TASKS for end in ends},
        "All is the paper's: one matrix for both embeddings and the projection.",
    )
    pairs = {(end, n): (found(n, end, "all"), found(n, end, "none")) for end, n in product(ends, TASKS)}
    how = {case: compared(*pair) for case, pair in pairs.items()}
    early, late = (any(how[end, n] == "higher" for n in TASKS) for end in ends)
    most = max(upper_end(*pairs[updates, n]) for n in TASKS)
    learned = max(loss for n in TASKS for loss in found(n, ends[0], "none")) < chance(3, 5, LETTERS)
    decided = learned and (late or most < MARGIN)
    doubt = "" if decided else ", so these seeds do not show that there is none"
    shown = "; ".join(
        f"{n}, {end} updates: {' and '.join(spread(found(n, end, t), '.3f') for t in TIED)}, {how[end, n]}"
        for end, n in product(ends, TASKS)
    )
    because = (
        "Loss in nats a token with nothing and with all tied, and how the second compares with the first: "
        f"{shown}. A cost is a clearly higher loss. A cost below {MARGIN} nats counts as none. The 95 % "
        f"intervals at {updates} updates allow a cost of up to {most:.2f} nats{doubt}."
    )
    verdict = verdict_of(not late, f"the training is long, here {updates} updates" if early else "", decided)
    return Result({"Other texts": rows}, picture, verdict, because)
