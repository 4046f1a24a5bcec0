"""Encodes a sentence with growing padding, with the padding mask of self-attention and without it, and
compares the outputs with those of the sentence alone.
"""

import torch

from dragoman.model.transformer import Transformer
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.models import largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="A batch without a padding mask",
    section="5.1",
    claim="Padding has an embedding that the model can learn to ignore, so a batch needs no padding mask.",
    claimed_by="implementations that have no padding mask",
)
LENGTH = 5


def encode(model: Transformer, source: torch.Tensor, masked: bool) -> torch.Tensor:
    """The rows of the first sentence's own tokens."""
    mask = model.source_mask(source)
    x = model.embed(source, model.source_embedding, model.source_positions(0, source.size(1)))
    with torch.no_grad():
        for layer in model.encoder:
            x = layer(x, mask if masked else torch.ones_like(mask))
    return x[0, :LENGTH]


def run(quick: bool) -> Result:
    rows = []
    for seed in (1, 2, 3):
        model = random_transformer(seed=seed)
        alone = encode(model, random_sentences([LENGTH], seed), masked=True)
        for padding in (0, 1, 2, 5, 10, 20):
            source = random_sentences([LENGTH], seed, padding)
            rows.append(
                {
                    "seed": seed,
                    "padding tokens": padding,
                    "with the mask": largest_difference(encode(model, source, masked=True), alone),
                    "without it": largest_difference(encode(model, source, masked=False), alone),
                }
            )
    kept = max(row["with the mask"] for row in rows)
    spread = float(alone.std())
    lost = [row["without it"] for row in rows if row["padding tokens"] == 1]
    picture = curves(
        f"Encoder output of a sentence of {LENGTH} tokens",
        "padding tokens",
        "largest difference from the sentence alone",
        {"with the mask, seeds 1 to 3": [(row["padding tokens"], row["with the mask"]) for row in rows[-6:]]}
        | {
            f"without it, seed {seed}": [
                (row["padding tokens"], row["without it"]) for row in rows if row["seed"] == seed
            ]
            for seed in (1, 2, 3)
        },
    )
    return Result(
        {"Largest differences, float64": rows},
        picture,
        verdict_of(min(lost) < 1e-9),
        f"Without the mask, one token of padding changes an output by {min(lost):.2f} or more; the standard "
        f"deviation of the outputs is {spread:.2f}. With the mask, any number of them changes it by "
        f"{kept:.0e} at most. A model may learn small weights for padding, but a softmax never gives exactly "
        "0, so a translation would depend on its batch.",
    )
