"""Computes the log-probabilities of a target for one source sentence with growing padding, with the padding
mask in encoder-decoder attention and without it, and compares them with those of the sentence alone. The
encoder keeps its mask in both cases. Then the sentence is in a batch with others of the same length.
"""

from dataclasses import replace

import torch

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="Padding in encoder-decoder attention",
    section="3.2.3",
    claim="Encoder-decoder attention needs no mask.",
    claimed_by="study notes",
    topics=("W3",),
)
LENGTH = 6


def log_probs(source: torch.Tensor, target: torch.Tensor, masked: bool) -> torch.Tensor:
    """Of the first target's tokens, with the source's mask in encoder-decoder attention or without it."""
    model = random_transformer()
    with torch.no_grad():
        state = model.encode(source)
        if not masked:
            state = replace(state, mask=torch.ones_like(state.mask))
        return model.logits(model.decode(target, state)[0]).log_softmax(-1)[:1]


def run(quick: bool) -> Result:
    target = random_sentences([7], seed=2)
    alone = log_probs(random_sentences([LENGTH]), target, masked=False)
    rows = []
    for padding in (0, 1, 2, 4, 8, 16, 32):
        source = random_sentences([LENGTH], padding=padding)
        row: dict[str, int | float] = {"padding tokens": padding}
        for name, masked in (("with the mask", True), ("without it", False)):
            found = log_probs(source, target, masked)
            row[f"difference, {name}"] = largest_difference(found, alone)
            row[f"other likeliest token, {name}, %"] = 100 * float(
                found.argmax(-1).ne(alone.argmax(-1)).double().mean()
            )
        rows.append(row)
    kept = max(row["difference, with the mask"] for row in rows)
    lost = max(row["difference, without it"] for row in rows)
    batch = torch.cat([random_sentences([LENGTH]), random_sentences([LENGTH] * 3, seed=5)])
    equal = largest_difference(log_probs(batch, target.expand(4, -1), masked=False), alone)
    condition = "all source sentences of a batch have the same length" if lost > 1e-9 else ""
    picture = curves(
        f"A sentence of {LENGTH} tokens in a padded batch",
        "padding tokens",
        "largest difference of a log-probability, nats",
        {
            name: [(row["padding tokens"], row[f"difference, {name}"]) for row in rows]
            for name in ("with the mask", "without it")
        },
    )
    return Result(
        {"Differences from the sentence alone": rows},
        picture,
        verdict_of(equal < 1e-9, condition),
        "It needs no causal mask, but it needs the mask of the source's padding. Without this mask, padding "
        f"changes log-probabilities by up to {lost:.1f} nats; with it, by {kept:.1g}. In a batch of 4 "
        f"sentences of one length, they change by {equal:.1g} without a mask.",
    )
