"""Trains Transformers with untied and three-way tied embeddings to reverse texts, whose letters are the same
in source and target, or all different, as in two languages with scripts of their own. The loss is measured
early and at the end of the training.
"""

from dataclasses import replace
from itertools import product
from statistics import mean

import numpy as np

from dragoman.model.costs import count_parameters
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.comparisons import Checkpoint, compared, keeper, loss_of
from lab.parts.training import TINY, VOCABULARY, Pair, chance, reversing, short, spread, train

CLAIM = Claim(
    title="Tied embeddings in training",
    section="3.4",
    claim="One matrix for both embeddings and the output projection costs no quality.",
    claimed_by="Press and Wolf 2017, to whom the paper refers in section 3.4",
)
LETTERS = (VOCABULARY - 4) // 2
TIED = ("none", "all")


def other_letters(generator: np.random.Generator) -> Pair:
    """A text and its reverse, in which each letter has a counterpart that no source contains."""
    source, target = reversing(3, 5, LETTERS)(generator)
    return source, [letter + LETTERS for letter in target]


TASKS = {"the same letters": reversing(3, 5, LETTERS), "other letters": other_letters}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 480, seeds=5)
    ends, rows = (updates // 4, updates), []
    for (name, task), tied, seed in product(TASKS.items(), TIED, seeds):
        settings, kept = replace(TINY, tied=tied), dict[int, Checkpoint]()
        train(settings, task, updates, seed, pairs=24, watch=keeper(kept, ends))
        about = {
            "letters": name,
            "tied": tied,
            "parameters": count_parameters(settings, VOCABULARY, VOCABULARY),
        }
        for end in ends:
            loss = loss_of(kept[end], settings, task, seed)
            rows.append(about | {"updates": end, "seed": seed, "nll": loss})

    def found(name: str, end: int, tied: str) -> list[float]:
        wanted = name, end, tied
        return [row["nll"] for row in rows if (row["letters"], row["updates"], row["tied"]) == wanted]

    picture = bars(
        f"Loss after {' and '.join(map(str, ends))} updates",
        "nll a token in nats, mean of the seeds",
        {f"{n}, {end}": {f"tied: {t}": mean(found(n, end, t)) for t in TIED} for n in TASKS for end in ends},
        "All is the paper's: one matrix for both embeddings and the projection.",
    )
    how = {end: [compared(found(n, end, "all"), found(n, end, "none")) for n in TASKS] for end in ends}
    early, late = ("higher" in how[end] for end in ends)
    learned = max(loss for n in TASKS for loss in found(n, ends[0], "none")) < chance(3, 5, LETTERS)
    shown = "; ".join(
        f"{n}, {end} updates: {' and '.join(spread(found(n, end, t), '.3f') for t in TIED)}, {difference}"
        for end in ends
        for n, difference in zip(TASKS, how[end], strict=True)
    )
    because = (
        f"Loss in nats a token with nothing and with all tied, and how the second compares with the first: "
        f"{shown}. A cost is a clearly higher loss. So few seeds would not show a small cost."
    )
    verdict = verdict_of(not late, f"the training is long, here {updates} updates" if early else "", learned)
    return Result({"Other texts": rows}, picture, verdict, because)
