"""Trains four models of the same width, each with attention to the source, to copy and to reverse texts of 4
to 8 letters, for the same number of updates: a Transformer, one whose self-attention is restricted to 4
positions around each query, ConvS2S and an LSTM. The distance of a reversed letter is that between its places
in the source and in the target; for copied letters it is 0.
"""

from collections import defaultdict
from dataclasses import replace
from statistics import mean

from dragoman.model.interface import Model
from dragoman.text.batches import Batch
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts import training
from dragoman_paper.lab.parts.comparisons import compared
from dragoman_paper.lab.parts.training import (
    BY_ARCHITECTURE,
    TINY,
    chance,
    nll,
    reversing,
    short,
    spread,
    wanted,
)

CLAIM = Claim(
    title="Reversing compared with copying",
    section="4",
    claim="For a Transformer, reversing a text is as easy to learn as copying it, because attention does not "
    "depend on the order of the tokens.",
    claimed_by="explanations of the constant path length (the paper, section 4)",
)
REVERSE = reversing(4, 8)
TASKS = {"copying": lambda generator: (REVERSE(generator)[0],) * 2, "reversing": REVERSE}
MODELS = BY_ARCHITECTURE | {"restricted Transformer": replace(TINY, neighbourhood=4)}


def accuracy_by_distance(model: Model, batch: Batch) -> dict[int, float]:
    """The share of reversed letters that are the likeliest after the target's own prefix, by distance."""
    right = training.token_log_probs(model, batch).argmax(-1) == batch.target_out
    found = defaultdict(list)
    for row, text in zip(right.tolist(), wanted(batch), strict=True):
        for place in range(len(text)):
            found[abs(len(text) - 1 - 2 * place)].append(row[place])
    return {distance: mean(found[distance]) for distance in sorted(found)}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200, seeds=8)
    rows, distances = [], []
    for name, settings in MODELS.items():
        for seed in seeds:
            about = {"model": name, "seed": seed}
            for task_name, task in TASKS.items():
                model, held_out = training.train(settings, task, updates, seed), training.examples(task, seed)
                scores = {"nll": nll(model, held_out), "accuracy": training.token_accuracy(model, held_out)}
                rows.append(about | {"task": task_name} | scores)
            found = accuracy_by_distance(model, held_out)  # of the last task, which is reversing
            distances += [about | {"distance": n, "accuracy": value} for n, value in found.items()]

    def losses(name: str, task: str) -> list[float]:
        return [row["nll"] for row in rows if (row["model"], row["task"]) == (name, task)]

    def each_at(name: str, distance: int) -> list[float]:
        return [r["accuracy"] for r in distances if (r["model"], r["distance"]) == (name, distance)]

    picture = curves(
        f"Reversed letters that are right, after {updates} updates",
        "distance in positions",
        "accuracy",
        {name: [(n, mean(each_at(name, n))) for n in range(8)] for name in MODELS},
        f"Mean of {len(seeds)} seeds. Even distances are of texts with 5 and 7 letters; 7 is that "
        "of the first and the last letter of texts with 8.",
    )
    copied, reversed_ = losses("Transformer", "copying"), losses("Transformer", "reversing")
    how, more = compared(reversed_, copied), mean(reversed_) - mean(copied)
    shown = "; ".join(f"{n} {' and '.join(spread(losses(n, task)) for task in TASKS)}" for n in MODELS)
    return Result(
        {"Other texts": rows, "Reversed letters by distance": distances},
        picture,
        verdict_of(how == "lower", decided=max(copied) < chance(4, 8) and how != "not clearly different"),
        f"The loss of copying and of reversing, in nats a token, mean and range of the seeds: {shown}. For "
        "each seed both tasks have the same initial weights and texts. For the Transformer, the mean "
        f"difference, reversing minus copying, is {more:+.3f} nats: {how}. At distances 0 and 7 it has "
        f"{spread(each_at('Transformer', 0))} and {spread(each_at('Transformer', 7))} of the letters right.",
    )
