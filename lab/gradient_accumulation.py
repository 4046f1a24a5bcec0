"""Computes the gradient of one batch of sentences of unequal lengths at once, and in parts that are added up:
once with each part's loss divided by its own tokens, once with sums that are divided by all tokens.
"""

import torch

from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.symbols import PAD
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.models import random_sentences, random_transformer

CLAIM = Claim(
    title="The gradient of a batch, computed in parts",
    section="5.1",
    claim="The mean of the gradients of a batch's parts is the gradient of the batch.",
    claimed_by="implementations of gradient accumulation",
)
LENGTHS = (2, 3, 3, 4, 12, 15, 17, 20)


def gradient(sentences: list[int], by_own_tokens: bool, seed: int) -> torch.Tensor:
    """The gradient of all weights for a batch of these parts, each of so many sentences."""
    model, loss = random_transformer(seed=seed), LabelSmoothedCrossEntropy(0.1)
    source, target = random_sentences(LENGTHS, seed), random_sentences(LENGTHS, seed + 10)
    everything = int((target[:, 1:] != PAD).sum())
    parts = list(zip(source.split(sentences), target.split(sentences), strict=True))
    for one, other in parts:
        features, _ = model.decode(other[:, :-1], model.encode(one))
        real = other[:, 1:] != PAD
        total, _ = loss(model.logits(features[real]), other[:, 1:][real])
        tokens = int(real.sum())
        (total / tokens / len(parts) if by_own_tokens else total / everything).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


def run(quick: bool) -> Result:
    rows = []
    for seed in (1, 2, 3):
        whole = gradient([len(LENGTHS)], by_own_tokens=True, seed=seed)
        for parts in (1, 2, 8):
            sentences = [len(LENGTHS) // parts] * parts
            row: dict[str, int | float] = {"seed": seed, "parts": parts}
            for name, own in (("means", True), ("sums", False)):
                found = gradient(sentences, own, seed)
                row[f"relative difference, {name}"] = float((found - whole).norm() / whole.norm())
            rows.append(row)
    sums = max(row["relative difference, sums"] for row in rows)
    means = min(row["relative difference, means"] for row in rows if row["parts"] == 8)
    picture = curves(
        "Gradient in parts against the gradient at once",
        "parts",
        "relative difference",
        {
            f"mean of means, seed {seed}": [
                (row["parts"], row["relative difference, means"]) for row in rows if row["seed"] == seed
            ]
            for seed in (1, 2, 3)
        }
        | {"sums, seed 1": [(row["parts"], row["relative difference, sums"]) for row in rows[:3]]},
    )
    return Result(
        {f"8 sentences of {min(LENGTHS)} to {max(LENGTHS)} tokens": rows},
        picture,
        verdict_of(sums < 1e-9, "all parts have the same number of tokens" if means > 1e-3 else ""),
        f"The mean over 8 parts differs from the batch's gradient by {means:.0%} or more of its norm, "
        "because parts with few tokens count as much as those with many. Sums that are divided by all "
        f"tokens agree to {sums:.0e}, whatever the parts.",
    )
