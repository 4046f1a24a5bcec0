"""Computes the gradient of one batch of sentences at once, and in parts: the mean of the gradients of each
part's mean loss, and the gradient of sums that are divided by all tokens. The sentences have unequal lengths,
or all the same.
"""

from collections.abc import Sequence

import torch

from dragoman.model.loss import LabelSmoothedCrossEntropy
from dragoman.model.symbols import PAD
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import random_sentences, random_transformer

CLAIM = Claim(
    title="The gradient of a batch, computed in parts",
    section="5.1",
    claim="The mean of the gradients of a batch's parts is the gradient of the batch.",
    claimed_by="implementations of gradient accumulation",
)
LENGTHS = {"unequal": (2, 3, 3, 4, 12, 15, 17, 20), "equal": (9,) * 8}


def gradient(lengths: Sequence[int], parts: int, by_own_tokens: bool, seed: int) -> torch.Tensor:
    """The gradient of all weights for a batch of so many parts, with the same number of sentences."""
    model, loss = random_transformer(seed=seed), LabelSmoothedCrossEntropy(0.1)
    source, target = random_sentences(lengths, seed), random_sentences(lengths, seed + 10)
    everything = int((target[:, 1:] != PAD).sum())
    for one, other in zip(source.chunk(parts), target.chunk(parts), strict=True):
        features, _ = model.decode(other[:, :-1], model.encode(one))
        real = other[:, 1:] != PAD
        total, _ = loss(model.logits(features[real]), other[:, 1:][real])
        tokens = int(real.sum())
        (total / tokens / parts if by_own_tokens else total / everything).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


def run(quick: bool) -> Result:
    rows: list[dict[str, str | int | float]] = []
    for name, lengths in LENGTHS.items():
        for seed in (1, 2, 3):
            whole = gradient(lengths, 1, by_own_tokens=True, seed=seed)
            for parts in (1, 2, 8):
                row: dict[str, str | int | float] = {"lengths": name, "seed": seed, "parts": parts}
                for rule, own in (("means", True), ("sums", False)):
                    found = gradient(lengths, parts, own, seed)
                    row[rule] = float((found - whole).norm() / whole.norm())
                rows.append(row)
    unequal, equal = ([row for row in rows if row["lengths"] == name] for name in LENGTHS)
    means = min(row["means"] for row in unequal if row["parts"] == 8)
    tokens = [length - 1 for length in LENGTHS["unequal"]]  # those that are predicted
    same, sums = max(row["means"] for row in equal), max(row["sums"] for row in rows)
    picture = curves(
        "Gradient in parts against the gradient at once",
        "parts",
        "relative difference",
        {
            f"mean of means, unequal lengths, seed {seed}": [
                (row["parts"], row["means"]) for row in unequal if row["seed"] == seed
            ]
            for seed in (1, 2, 3)
        }
        | {"mean of means, equal lengths, seed 1": [(row["parts"], row["means"]) for row in equal[:3]]}
        | {"sums, unequal lengths, seed 1": [(row["parts"], row["sums"]) for row in unequal[:3]]},
    )
    return Result(
        {"Relative difference from the gradient at once, 8 sentences": rows},
        picture,
        verdict_of(same < 1e-9, "all parts have the same number of tokens" if means > 1e-3 else ""),
        f"With unequal lengths the mean over 8 parts differs from the batch's gradient by {means:.0%} or "
        "more of its norm, because parts with few tokens count as much as those with many; with equal "
        f"lengths it agrees to {same:.0e}. Sums that are divided by all tokens agree to {sums:.0e}, whatever "
        f"the parts. The unequal lengths are an extreme case: the 8 parts have {min(tokens)} to "
        f"{max(tokens)} predicted tokens, and the 2 parts are the short and the long half of the sorted "
        "sentences.",
    )
