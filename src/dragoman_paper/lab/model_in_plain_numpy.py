"""Computes the whole model in plain NumPy, with loops over layers, tokens, heads and keys as the equations
read (lab/parts/numpy_transformer.py, about 100 lines), and compares its probabilities with those of this
package's model, with PyTorch's fused kernel, for the same weights.
"""

import numpy as np
import torch

from dragoman.model.settings import ModelSettings
from dragoman.model.weights import weights
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.models import SMALL, VOCABULARY, random_sentences, random_transformer
from dragoman_paper.lab.parts.numpy_transformer import probabilities

CLAIM = Claim(
    title="The whole model in plain NumPy",
    section="3.1",
    claim="The paper's equations, written as loops, are the whole model.",
    claimed_by="the paper, section 3; texts that define the model by its equations",
)
MODELS = {
    "4 heads, 3 + 3 layers": SMALL,
    "d_k = 5, d_v = 7, 2 + 1 layers": ModelSettings(
        d_model=24, d_ff=40, heads=3, d_k=5, d_v=7, encoder_layers=2, decoder_layers=1
    ),
    "1 head, 1 + 2 layers": ModelSettings(d_model=16, d_ff=64, heads=1, encoder_layers=1, decoder_layers=2),
}


def run(quick: bool) -> Result:
    source, target = random_sentences([9]), random_sentences([7], seed=2)
    rows, shown = [], {}
    for name, settings in MODELS.items():
        model = random_transformer(settings)
        with torch.no_grad():
            theirs = model.logits(model.decode(target, model.encode(source))[0]).softmax(-1)[0].numpy()
        named = {key: weight.numpy() for key, weight in weights(model).items()}
        ours = probabilities(source[0].tolist(), target[0].tolist(), named, settings)
        rows.append(
            {
                "model": name,
                "largest difference of a probability": float(np.abs(ours - theirs).max()),
                "same likeliest tokens": int((ours.argmax(-1) == theirs.argmax(-1)).sum()),
                "tokens": target.size(1),
            }
        )
        if not shown:
            shown = {"loops in NumPy": ours**0.25, "this package": theirs**0.25}
    worst = max(row["largest difference of a probability"] for row in rows)
    picture = matrices(
        "Probabilities of the next token",
        "fourth root of the probability",
        shown,
        Side("after target token"),
        Side("id of the next token", range(VOCABULARY)),
        "Fourth roots make small probabilities visible.",
        across=1,
    )
    return Result(
        {"Random weights, float64": rows},
        picture,
        verdict_of(worst < 1e-5),
        f"In all {len(rows)} models the probabilities agree to {worst:.0e}; they differ because the "
        "package's table of positions is float32. The rest of an implementation is speed: batches, caches "
        "and fused kernels.",
    )
