"""Trains four models of the same width, each with attention to the source, to copy and to reverse texts of 4
to 8 letters, for the same number of updates: a Transformer, one whose self-attention is restricted to 4
positions around each query, ConvS2S and an LSTM.
"""

from dataclasses import replace
from statistics import mean

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts.training import (
    BY_ARCHITECTURE,
    TINY,
    examples,
    nll,
    reversing,
    short,
    spread,
    token_accuracy,
    train,
)

CLAIM = Claim(
    title="Reversing compared with copying",
    section="4",
    claim="For a Transformer, reversing a text is as easy to learn as copying it, because attention does not "
    "depend on the order of the tokens.",
    claimed_by="explanations of the constant path length (the paper, section 4)",
)
MODELS = BY_ARCHITECTURE | {"restricted Transformer": replace(TINY, neighbourhood=4)}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    reverse = reversing(4, 8)
    tasks = {"copying": lambda generator: (reverse(generator)[0],) * 2, "reversing": reverse}
    rows = []
    for task_name, task in tasks.items():
        for name, settings in MODELS.items():
            for seed in seeds:
                model, held_out = train(settings, task, updates, seed), examples(task, seed)
                scores = {"nll": nll(model, held_out), "accuracy": token_accuracy(model, held_out)}
                rows.append({"model": name, "task": task_name, "seed": seed} | scores)

    def found(name: str, task: str) -> list[float]:
        return [row["nll"] for row in rows if (row["model"], row["task"]) == (name, task)]

    picture = bars(
        f"Loss after {updates} updates",
        "nll a token in nats, mean of the seeds",
        {task: {name: mean(found(name, task)) for name in MODELS} for task in tasks},
    )
    copied, reversed_ = found("Transformer", "copying"), found("Transformer", "reversing")
    shown = "; ".join(
        f"{name} {spread(found(name, 'copying'))} and {spread(found(name, 'reversing'))}" for name in MODELS
    )
    return Result(
        {"Held-out texts": rows},
        picture,
        verdict_of(not all(b > a for a, b in zip(copied, reversed_, strict=True))),
        f"The loss of copying and of reversing, in nats a token, mean and range of the seeds: {shown}. For "
        f"each seed both tasks have the same initial weights and texts. Of {len(seeds)} seeds, reversing "
        "has the higher loss for the Transformer with "
        f"{sum(b > a for a, b in zip(copied, reversed_, strict=True))}.",
    )
