"""Trains Transformers with 4 layers of encoder to reverse texts, with residual connections and without, and
predicts the position of each token from the state after each layer by linear regression. R² is measured on
texts that the regression was not fitted to. The same is done with untrained models.
"""

from dataclasses import replace
from statistics import mean

import torch

from dragoman.model.transformer import Transformer
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.training import TINY, examples, fresh, reversing, short, spread, train

CLAIM = Claim(
    title="Positions in upper layers",
    section="3.5",
    claim="Positions are added only below the first layer, and residual connections carry them to the upper "
    "layers; without residual connections they are lost.",
    claimed_by="study notes and tutorials",
)
LAYERS, LENGTH = 4, 8
DEEP = replace(TINY, encoder_layers=LAYERS, decoder_layers=1)


def explained(model: Transformer) -> list[float]:
    """R² of the position from the embedded source, and from the state after each layer."""
    states: list[torch.Tensor] = []
    hooks = [layer.register_forward_hook(lambda *each: states.append(each[2])) for layer in model.encoder]
    hooks.append(model.encoder[0].register_forward_pre_hook(lambda _, inputs: states.append(inputs[0])))
    source = examples(reversing(LENGTH, LENGTH), 1, 400).source[:, :LENGTH]
    with torch.no_grad():
        model.encode(source)
    position = (torch.arange(LENGTH, dtype=torch.float64) - (LENGTH - 1) / 2).repeat(200)[:, None]
    found = []
    for state in states:
        rows = torch.cat([state.double(), torch.ones_like(state[:, :, :1]).double()], 2)
        seen, unseen = rows[:200].flatten(0, 1), rows[200:].flatten(0, 1)
        guess = unseen @ torch.linalg.lstsq(seen, position, driver="gelsd").solution
        found.append(1 - float((guess - position).square().sum() / position.square().sum()))
    return found


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    found: dict[str, list[list[float]]] = {}
    for residual in ("with", "without"):
        settings = replace(DEEP, residual=residual == "with")
        for seed in seeds:
            trained = train(settings, reversing(4, LENGTH), updates, seed)
            found.setdefault(f"{residual} residuals, trained", []).append(explained(trained))
            untrained = explained(fresh(settings, seed).eval())
            found.setdefault(f"{residual} residuals, untrained", []).append(untrained)
    rows = [
        {"model": name, "seed": seed, "layer": layer, "R²": value}
        for name, runs in found.items()
        for seed, values in zip(seeds, runs, strict=True)
        for layer, value in enumerate(values)
    ]
    picture = curves(
        "How well the position can be read from a state",
        "layers of the encoder",
        "R² of a linear regression",
        {
            name: [(n, mean(run[n] for run in runs)) for n in range(LAYERS + 1)]
            for name, runs in found.items()
        },
        f"Mean of {len(seeds)} seeds; {updates} updates. Layer 0 is the sum of embeddings and positions.",
    )
    top = {name: [run[-1] for run in runs] for name, runs in found.items()}
    lost = max(top["without residuals, trained"]) < 0.5
    return Result(
        {"R² by layer": rows},
        picture,
        verdict_of(min(top["with residuals, trained"]) > 0.5 and lost),
        f"R² of the position after layer {LAYERS}: "
        f"{'; '.join(f'{name}: {spread(values)}' for name, values in top.items())}.",
    )
