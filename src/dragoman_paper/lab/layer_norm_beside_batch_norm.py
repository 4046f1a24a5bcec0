"""Normalises the states of a sentence by layer and by batch normalisation while the other sentences of the
batch change, and measures how much the output of batch normalisation differs between training and evaluation,
for batches of growing size whose sentences have unequal lengths. Padding is left out of the batch's
statistics.
"""

import torch
from torch import nn

from dragoman.model.symbols import PAD
from dragoman.model.variants import BatchNorm
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import VOCABULARY, largest_difference, random_sentences

CLAIM = Claim(
    title="Layer normalisation compared with batch normalisation",
    section="3.1",
    claim="Layer normalisation does not depend on the other sentences of the batch and their lengths; batch "
    "normalisation does, and differs between training and evaluation, most in small batches.",
    claimed_by="study notes",
)
WIDTH, SEEDS, SIZES = 32, (1, 2, 3), (1, 2, 4, 16, 64, 256)
GAP = "batch norm: training against evaluation"


def batch(size: int, seed: int, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """States [B, T, D] of a sentence of 5 tokens and size − 1 others, and where they have tokens."""
    generator = torch.Generator().manual_seed(100 * seed + size)
    lengths = torch.randint(2, 31, (size - 1,), generator=generator).tolist()
    ids = random_sentences([5, *lengths], seed)
    ids[0, :5] = torch.arange(10, 15)
    return table[ids], ids != PAD


def run(quick: bool) -> Result:
    rows = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        table = (
            torch.randn(VOCABULARY, WIDTH, dtype=torch.float64) * torch.linspace(0.1, 3, VOCABULARY)[:, None]
        )
        layer, norm = nn.LayerNorm(WIDTH).double(), BatchNorm(WIDTH, 1e-5).double()
        for number in range(50 if quick else 300):  # running averages
            x, norm.tokens = batch(16, seed + 1000 * number, table)
            norm(x)
        alone = layer(table[10:15])
        evaluated = norm.eval()(table[None, 10:15])[0]
        for size in SIZES:
            x, norm.tokens = batch(size, seed, table)
            rows.append(
                {
                    "seed": seed,
                    "sentences": size,
                    "layer norm: difference from alone": largest_difference(layer(x)[0, :5], alone),
                    GAP: largest_difference(norm.train()(x)[0, :5], evaluated),
                }
            )
    steady = max(row["layer norm: difference from alone"] for row in rows)

    def gap(size: int) -> float:
        found = [row[GAP] for row in rows if row["sentences"] == size]
        return sum(found) / len(found)

    picture = curves(
        "Batch normalisation in training and in evaluation",
        "sentences in the batch",
        "largest difference",
        {"mean of three seeds": [(size, gap(size)) for size in SIZES]},
        log_x=True,
    )
    return Result(
        {"States of one sentence of 5 tokens": rows},
        picture,
        verdict_of(steady < 1e-9 and gap(1) > 2 * gap(256) > 0.01),
        "Layer normalisation of the sentence is the same whatever the batch (largest difference "
        f"{steady:.0g}). Batch normalisation in training differs from that in evaluation by {gap(1):.2f} in "
        f"a batch of 1 sentence, {gap(16):.2f} in one of 16, and {gap(256):.2f} in one of 256.",
    )
