"""Counts positions from 0, as the authors' code does, from 1, as CTranslate2 does by default, and from 2, as
fairseq does, in a model with the same random weights, and compares the log-probabilities. A shift of
positions is a rotation of their features, and the weights are not rotated with them.
"""

from dataclasses import replace

import torch

from dragoman.model.sinusoids import sinusoid_table
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.models import SMALL, largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="Positions count from 0",
    section="3.5",
    claim="An engine may count positions from 1 where the training counted from 0.",
    claimed_by="tutorials that count from 1",
    topics=("W9", "T1"),
)


def run(quick: bool) -> Result:
    source, target = random_sentences([8, 5]), random_sentences([7, 7], seed=2)
    log_probs = {}
    for first in (0, 1, 2):
        model = random_transformer(replace(SMALL, first_position=first))
        with torch.no_grad():
            log_probs[first] = model.logits(model.decode(target, model.encode(source))[0]).log_softmax(-1)
    table = sinusoid_table(len(log_probs), SMALL.d_model)
    spread = float(log_probs[0].std())
    rows = [
        {
            "first position": first,
            "PE(first), first pair": ", ".join(f"{x:.3g}" for x in table[first, :2]),
            "largest difference of a log-probability": largest_difference(each, log_probs[0]),
            "share of likeliest tokens that change": float(
                (each.argmax(-1) != log_probs[0].argmax(-1)).double().mean()
            ),
        }
        for first, each in log_probs.items()
    ]
    worst = rows[1]["largest difference of a log-probability"]
    picture = bars(
        "The same weights with other first positions",
        "largest difference of a log-probability, nats",
        {
            "": {
                f"from {row['first position']}": row["largest difference of a log-probability"]
                for row in rows
            }
        },
    )
    return Result(
        {"Differences from counting from 0": rows},
        picture,
        verdict_of(worst < 1e-9),
        "PE(0) is (0, 1, 0, 1, …). With the same weights, counting from 1 changes log-probabilities by up to "
        f"{worst:.2f} nats (their standard deviation is {spread:.2f}), so an engine has to count as the "
        "training did. Whether a training from 1 gives a worse model than one from 0 is not tested here.",
    )
