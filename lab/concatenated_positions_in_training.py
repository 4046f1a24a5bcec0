"""Trains Transformers to reverse texts, with positions that are added to embeddings, as in the paper, and
with positions that are concatenated to them and mapped to d_model by a matrix.
"""

from dataclasses import replace
from statistics import mean

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.training import (
    TINY,
    chance,
    examples,
    mean_curve,
    recorder,
    reversing,
    short,
    spread,
    token_accuracy,
    train,
)

CLAIM = Claim(
    title="Added and concatenated positions in training",
    section="3.5",
    claim="A model with concatenated positions learns no better than one with added positions.",
    claimed_by="answers to a common question (why positions are added, and not concatenated)",
)
TASK = reversing(4, 8)
KINDS = {"added": False, "concatenated": True}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 160)
    losses: dict[str, list[list[float]]] = {name: [] for name in KINDS}
    rows = []
    for name, concatenated in KINDS.items():
        for seed in seeds:
            found: list[float] = []
            model = train(
                replace(TINY, concatenate_positions=concatenated),
                TASK,
                updates,
                seed,
                pairs=24,
                watch=recorder(found),
            )
            losses[name].append(found)
            accuracy = token_accuracy(model, examples(TASK, seed))
            weights = sum(weight.numel() for weight in model.parameters())
            rows.append({"positions": name, "seed": seed, "accuracy": accuracy, "weights": weights})
    tail = max(updates // 10, 1)
    last = {name: [mean(found[-tail:]) for found in runs] for name, runs in losses.items()}
    picture = curves(
        "Learning curves",
        "updates",
        "nll a token in nats",
        {name: mean_curve(runs, tail) for name, runs in losses.items()},
        f"Mean of {len(seeds)} seeds and of {tail} updates.",
    )
    right = {name: [row["accuracy"] for row in rows if row["positions"] == name] for name in KINDS}
    decided = max(last["added"]) < chance(4, 8)
    shown = "; ".join(f"{name} {spread(last[name])} nats, {spread(right[name])}" for name in KINDS)
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(max(last["concatenated"]) >= min(last["added"]), decided=decided),
        f"The loss of the last {tail} of {updates} updates, and the share of tokens right in other texts: "
        f"{shown}. Concatenation has {rows[-1]['weights'] - rows[0]['weights']:,} more weights.",
    )
