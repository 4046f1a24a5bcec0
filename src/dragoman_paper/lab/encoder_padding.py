"""Trains Transformers without a padding mask to reverse texts of 3 to 6 letters, in batches that are padded
to their longest text, and measures the accuracy in batches of other widths: with more padding, and with texts
of one length, without padding. The same is done with a mask.
"""

from unittest.mock import patch

import torch

from dragoman.model.transformer import Transformer
from dragoman.text.batches import Batch
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.comparisons import range_above
from dragoman_paper.lab.parts.training import TINY, examples, reversing, short, spread, token_accuracy, train

CLAIM = Claim(
    title="A batch without a padding mask",
    section="5.1",
    claim="Padding has an embedding that the model can learn to ignore, so a batch needs no padding mask.",
    claimed_by="implementations that have no padding mask",
)
SHORTEST, LONGEST, LOSS = 3, 6, 0.02
WIDTH = LONGEST + 1  # with END, of a batch of training that has a longest text
ALONE = {f"{n} letters": (n, n, 0) for n in range(SHORTEST, LONGEST + 1)}
PADDED = {f"{n} more": (SHORTEST, LONGEST, n) for n in (0, 1, 2, 5, 10, 20)}
"""The least and the most letters, and the tokens of padding that are added to a batch of these texts."""


def everything(model: Transformer, source: torch.Tensor) -> torch.Tensor:
    """A source mask that allows padding."""
    return torch.ones_like(source, dtype=torch.bool)[:, None, None]


def trained(seed: int, updates: int) -> dict[str, float]:
    """Accuracy in each case."""
    model, found = train(TINY, reversing(SHORTEST, LONGEST), updates, seed), {}
    for name, (shortest, longest, more) in (ALONE | PADDED).items():
        batch = examples(reversing(shortest, longest), seed)
        source = torch.nn.functional.pad(batch.source, (0, more))
        found[name] = token_accuracy(model, Batch.of(source, batch.target_out, batch.pairs))
    return found


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 250)
    masked = [trained(seed, updates) for seed in seeds]
    with patch.object(Transformer, "source_mask", everything):
        bare = [trained(seed, updates) for seed in seeds]
    widths = {name: longest + 1 + more for name, (_, longest, more) in (ALONE | PADDED).items()}
    models = [(f"mask, seed {seed}", found) for seed, found in zip(seeds, masked, strict=True)]
    models += [(f"no mask, seed {seed}", found) for seed, found in zip(seeds, bare, strict=True)]
    rows = [{"texts": c, "tokens": widths[c]} | {name: found[c] for name, found in models} for c in widths]
    picture = curves(
        "Accuracy by the width of a batch",
        "tokens of a source, with padding",
        "accuracy of a token",
        {name: [(row["tokens"], row[name]) for row in rows] for name, _ in models},
        f"In training it is {WIDTH}. Below {WIDTH} there are texts of one length, without padding.",
    )
    with_mask, without = ({c: [found[c] for found in kind] for c in widths} for kind in (masked, bare))
    as_wide = [name for name, width in widths.items() if width == WIDTH]
    equal = not any(range_above(with_mask[name], without[name]) for name in as_wide)
    least = min(min(found) for found in with_mask.values())
    kept = all(min(found.values()) > found["0 more"] - LOSS for found in bare)
    condition = "" if kept else "each batch is as wide as those of training"
    alone = ", ".join(f"{spread(without[c])} for {c}" for c in ALONE)
    padded = "; ".join(f"{c}: {spread(without[c])}" for c in PADDED)
    return Result(
        {f"Accuracy after {updates} updates": rows},
        picture,
        verdict_of(equal, condition, decided=min(with_mask["0 more"]) > 0.5),
        f"Accuracy of models trained without a mask, by tokens of padding that are added: {padded}. With a "
        f"mask it is {spread(with_mask['0 more'])} without more padding, and {least:.2f} or more in all "
        "cases. Overlapping ranges of so few seeds are weak evidence of equality. Without a mask and without "
        f"any padding, accuracy is {alone}, because training had nearly only batches of {WIDTH} tokens. "
        "Added padding also has positions that training did not have.",
    )
