"""Trains Transformers without a padding mask to reverse texts of 3 to 6 letters, in batches that are padded
to their longest text, and measures the accuracy with more padding than that, and that of models with a mask.
Also encodes a sentence by models with random weights, with growing padding, with the mask and without it.
"""

from unittest.mock import patch

import torch

from dragoman.model.transformer import Transformer
from dragoman.text.batches import Batch
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.comparisons import range_above
from lab.parts.models import largest_difference, random_sentences, random_transformer
from lab.parts.training import SEEDS, TINY, examples, reversing, short, spread, token_accuracy, train

CLAIM = Claim(
    title="A batch without a padding mask",
    section="5.1",
    claim="Padding has an embedding that the model can learn to ignore, so a batch needs no padding mask.",
    claimed_by="implementations that have no padding mask",
)
LENGTH, PADDING, TASK, LOSS = 5, (0, 1, 2, 5, 10, 20), reversing(3, 6), 0.02
FEW = "batches have no more padding than those of training"


def everything(model: Transformer, source: torch.Tensor) -> torch.Tensor:
    """A source mask that allows padding."""
    return torch.ones_like(source, dtype=torch.bool)[:, None, None]


def encode(seed: int, padding: int) -> torch.Tensor:
    """By a model with random weights: the rows of a sentence's own tokens."""
    with torch.no_grad():
        state = random_transformer(seed=seed).encode(random_sentences([LENGTH], seed, padding))
    assert state.encoder_output is not None
    return state.encoder_output[0, :LENGTH]


def trained(seed: int, updates: int) -> dict[int, float]:
    """Accuracy by the number of padding tokens that are added to each source."""
    model, batch = train(TINY, TASK, updates, seed), examples(TASK, seed)
    padded = {n: torch.nn.functional.pad(batch.source, (0, n)) for n in PADDING}
    batches = {n: Batch.of(source, batch.target_out, batch.pairs) for n, source in padded.items()}
    return {n: token_accuracy(model, each) for n, each in batches.items()}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 250)
    alone = {seed: encode(seed, 0) for seed in SEEDS}

    def change(padding: int) -> float:
        return max(largest_difference(encode(seed, padding), alone[seed]) for seed in SEEDS)

    masked = {n: change(n) for n in PADDING}
    with_mask = [trained(seed, updates)[0] for seed in seeds]
    with patch.object(Transformer, "source_mask", everything):
        without = {n: change(n) for n in PADDING}
        right = {seed: trained(seed, updates) for seed in seeds}
    kept = all(min(found.values()) > found[0] - LOSS for found in right.values())
    picture = curves(
        "Texts with more padding than in training, without a mask",
        "padding tokens added",
        "accuracy of a token",
        {f"seed {seed}": list(found.items()) for seed, found in right.items()},
    )
    accuracy = [{"added": n} | {f"seed {s}": found[n] for s, found in right.items()} for n in PADDING]
    changes = [{"padding": n, "with the mask": masked[n], "without it": without[n]} for n in PADDING]
    by_padding = {n: [found[n] for found in right.values()] for n in PADDING}
    shown = "; ".join(f"{n} more: {spread(found)}" for n, found in by_padding.items())
    return Result(
        {f"Accuracy after {updates} updates without a mask": accuracy, "Random weights, change": changes},
        picture,
        verdict_of(not range_above(with_mask, by_padding[0]), "" if kept else FEW, min(with_mask) > 0.5),
        f"Accuracy of models trained without a mask, by padding that is added: {shown}; of models with a "
        f"mask, {spread(with_mask)}. Added padding also has positions that training did not have. With "
        f"random weights and no mask, a token of padding changes the output by up to {without[1]:.2f}; with "
        f"the mask, by {max(masked.values()):.0e} at most.",
    )
