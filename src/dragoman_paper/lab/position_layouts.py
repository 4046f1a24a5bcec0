"""Compares the tables of sinusoids of several toolkits with the paper's. A table with all sines first is the
paper's with its columns permuted. The same permutation is applied to every dimension d_model of a model's
weights, and the model runs with both tables. A third table has the frequencies of the authors' code.
"""

from dataclasses import replace

import numpy as np
import torch

from dragoman.model.sinusoids import sinusoid_table
from dragoman.model.transformer import Transformer
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import SMALL, largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="Layouts of the sinusoids",
    section="3.5",
    claim="Toolkits that put all sines before all cosines use the same positions, with the features in "
    "another order.",
    claimed_by="comments in the code of toolkits",
    topics=("T1", "T2"),
)
KINDS = ("sinusoidal", "sinusoidal-halves", "sinusoidal-tensor2tensor")


def permuted(model: Transformer, kind: str, order: torch.Tensor) -> Transformer:
    """The model with another layout, and the features of d_model in this order in every weight."""
    other = random_transformer(replace(SMALL, positions=kind))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            new = weight
            if name.endswith(("query_key_value.weight", "inner.weight", "embedding.weight")):
                new = weight[:, order]
            elif "norm" in name or name.endswith(("output.weight", "outer.weight", "outer.bias")):
                new = weight[order]
            other.get_parameter(name).copy_(new)
    return other


def log_probs(model: Transformer) -> torch.Tensor:
    """Of random targets."""
    source, target = random_sentences([30, 25]), random_sentences([30, 30], seed=2)
    with torch.no_grad():
        return model.logits(model.decode(target, model.encode(source))[0]).log_softmax(-1)


def run(quick: bool) -> Result:
    width, length = SMALL.d_model, 512
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    paper = sinusoid_table(length, width).astype(float)
    model, rows = random_transformer(), []
    for kind in KINDS[1:]:
        table = sinusoid_table(length, width, kind).astype(float)
        rows.append(
            {
                "layout": kind,
                "same numbers in another order": "yes" if np.array_equal(table, paper[:, order]) else "no",
                "largest difference of the table": float(np.abs(table - paper[:, order]).max()),
                "largest difference of a log-probability": largest_difference(
                    log_probs(permuted(model, kind, order)), log_probs(model)
                ),
            }
        )
    tables = [[sinusoid_table(30, d, kind).astype(float) for kind in KINDS[1:]] for d in (width, 512)]
    small, large = (float(np.abs(one - other).max()) for one, other in tables)
    halves, theirs = (row["largest difference of a log-probability"] for row in rows)
    shown = {kind: sinusoid_table(40, width, kind).astype(float) for kind in KINDS}
    sides = Side("position", range(40)), Side("feature", range(width))
    picture = matrices(f"Sinusoids, d_model = {width}", "value of the feature", shown, *sides, across=3)
    verdict = verdict_of(halves < 1e-9, "the frequencies are the paper's too" if theirs > 1e-6 else "")
    because = (
        "With the paper's frequencies (Sockeye, Hugging Face Marian) only the columns are permuted, and with "
        f"permuted weights the log-probabilities agree to {halves:.0e}. Tensor2Tensor, fairseq and Marian "
        f"also have other frequencies; for d_model = {width}, log-probabilities then differ by up to "
        f"{theirs:.2f} nats. Over the first 30 positions, the tables differ by up to {small:.2f} for d_model "
        f"= {width} and by up to {large:.2f} for 512."
    )
    return Result({f"{length} positions, d_model = {width}": rows}, picture, verdict, because)
