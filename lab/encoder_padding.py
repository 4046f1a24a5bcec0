"""Trains Transformers without a padding mask to reverse texts of 3 to 6 letters, in batches that are padded
to their longest text, and measures the accuracy with more padding than that. Also encodes a sentence by
models with random weights, with growing padding, with the mask and without it.
"""

from statistics import mean
from unittest.mock import patch

import torch

from dragoman.model.transformer import Transformer
from dragoman.text.batches import Batch
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.models import largest_difference, random_sentences, random_transformer
from lab.parts.training import SEEDS, TINY, examples, reversing, short, spread, token_accuracy, train

CLAIM = Claim(
    title="A batch without a padding mask",
    section="5.1",
    claim="Padding has an embedding that the model can learn to ignore, so a batch needs no padding mask.",
    claimed_by="implementations that have no padding mask",
)
LENGTH, PADDING, TASK, LOSS = 5, (0, 1, 2, 5, 10, 20), reversing(3, 6), 0.02


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
    return {
        n: token_accuracy(model, Batch.of(each, batch.target_out, batch.pairs)) for n, each in padded.items()
    }


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 250)
    alone = {seed: encode(seed, 0) for seed in SEEDS}

    def change(padding: int) -> float:
        return max(largest_difference(encode(seed, padding), alone[seed]) for seed in SEEDS)

    masked = {n: change(n) for n in PADDING}
    with patch.object(Transformer, "source_mask", everything):
        without = {n: change(n) for n in PADDING}
        right = {seed: trained(seed, updates) for seed in seeds}
    kept = [n for n in PADDING if all(found[n] > found[0] - LOSS for found in right.values())]
    picture = curves(
        "Texts with more padding than in training, without a mask",
        "padding tokens added",
        "accuracy of a token",
        {f"seed {seed}": list(found.items()) for seed, found in right.items()},
    )
    accuracy = [{"added": n} | {f"seed {s}": found[n] for s, found in right.items()} for n in PADDING]
    changes = [{"padding": n, "with the mask": masked[n], "without it": without[n]} for n in PADDING]
    shown = "; ".join(f"{n} more: {spread([found[n] for found in right.values()])}" for n in PADDING)
    few = "" if len(kept) == len(PADDING) else f"at most {max(kept)} tokens of padding are added"
    deviation = mean(float(each.std()) for each in alone.values())
    return Result(
        {f"Accuracy after {updates} updates without a mask": accuracy, "Random weights, change": changes},
        picture,
        verdict_of(len(kept) > 1, few, decided=min(found[0] for found in right.values()) > 0.5),
        f"Accuracy of models trained without a mask, by padding: {shown}. With random weights and no mask, a "
        f"token of padding changes the output, of standard deviation {deviation:.2f}, by up to "
        f"{without[1]:.2f}; with the mask, {max(masked.values()):.0e} at most. A softmax gives 0 only by "
        "underflow, so without the mask a translation depends on its batch.",
    )
