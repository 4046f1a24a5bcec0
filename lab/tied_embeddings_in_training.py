"""Trains Transformers with no, two-way and three-way tied embeddings to reverse texts, whose letters are the
same in source and target, or all different, as in two languages with scripts of their own.
"""

from dataclasses import replace
from statistics import mean

import numpy as np

from dragoman.model.costs import count_parameters
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.comparisons import compared
from lab.parts.training import TINY, VOCABULARY, Pair, chance, examples, nll, reversing, short, spread, train

CLAIM = Claim(
    title="Tied embeddings in training",
    section="3.4",
    claim="One matrix for both embeddings and the output projection costs no quality.",
    claimed_by="Press and Wolf 2017, to whom the paper refers in section 3.4",
)
LETTERS = (VOCABULARY - 4) // 2
TIED = ("none", "target", "all")


def other_letters(generator: np.random.Generator) -> Pair:
    """A text and its reverse, in which each letter has a counterpart that no source contains."""
    source, target = reversing(3, 5, LETTERS)(generator)
    return source, [letter + LETTERS for letter in target]


TASKS = {"the same letters": reversing(3, 5, LETTERS), "other letters": other_letters}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 150, seeds=8)
    rows = [
        {
            "letters": name,
            "tied": tied,
            "parameters": count_parameters(replace(TINY, tied=tied), VOCABULARY, VOCABULARY),
            "seed": seed,
            "nll": nll(train(replace(TINY, tied=tied), task, updates, seed), examples(task, seed)),
        }
        for name, task in TASKS.items()
        for tied in TIED
        for seed in seeds
    ]

    def found(name: str, tied: str) -> list[float]:
        return [row["nll"] for row in rows if (row["letters"], row["tied"]) == (name, tied)]

    picture = bars(
        f"Loss after {updates} updates",
        "nll a token in nats, mean of the seeds",
        {name: {f"tied: {tied}": mean(found(name, tied)) for tied in TIED} for name in TASKS},
        "All is the paper's. Target shares one matrix of the decoder's embedding and the projection.",
    )
    of_all, of_target = (
        [compared(found(name, tied), found(name, "none")) for name in TASKS] for tied in ("all", "target")
    )
    costs, is_open = "higher" in of_all, "not clearly different" in of_all
    learned = max(loss for name in TASKS for loss in found(name, "none")) < chance(3, 5, LETTERS)
    shown = "; ".join(
        f"{name}: " + ", ".join(f"{tied} {spread(found(name, tied))}" for tied in TIED) for name in TASKS
    )
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(not costs, decided=learned and (costs or not is_open)),
        f"Loss after {updates} updates, in nats a token, by what is tied: {shown}. Compared with none "
        f"tied, the loss with {' and with '.join(TASKS)} is, with all tied, {' and '.join(of_all)}; with "
        f"target tied, {' and '.join(of_target)}.",
    )
