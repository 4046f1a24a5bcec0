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
from lab.parts import training
from lab.parts.training import TINY, chance, examples, fresh, reversing, short, spread

CLAIM = Claim(
    title="Positions in upper layers",
    section="3.5",
    claim="Positions are added only below the first layer, and residual connections carry them to the upper "
    "layers; without residual connections they are lost.",
    claimed_by="study notes and tutorials",
)
LAYERS, LENGTH, CHANCE = 4, 8, chance(4, 8)
DEEP = replace(TINY, encoder_layers=LAYERS, decoder_layers=1)


def explained(model: Transformer) -> list[float]:
    """R² of the position from the embedded source, and from the state after each layer."""
    states: list[torch.Tensor] = []
    hooks = [layer.register_forward_hook(lambda *each: states.append(each[2])) for layer in model.encoder]
    hooks.append(model.encoder[0].register_forward_pre_hook(lambda _, inputs: states.append(inputs[0])))
    with torch.no_grad():
        model.encode(examples(reversing(LENGTH, LENGTH), 1, 400).source)
    position = (torch.arange(LENGTH, dtype=torch.float64) - (LENGTH - 1) / 2).repeat(200)[:, None]
    found = []
    for state in (each[:, :LENGTH] for each in states):  # without END
        rows = torch.cat([state, torch.ones_like(state[:, :, :1])], 2).double()
        seen, unseen = rows[:200].flatten(0, 1), rows[200:].flatten(0, 1)
        guess = unseen @ torch.linalg.lstsq(seen, position, driver="gelsd").solution
        found.append(1 - float((guess - position).square().sum() / position.square().sum()))
    return found


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    task, rows = reversing(4, LENGTH), []
    for residual in ("with", "without"):
        settings = replace(DEEP, residual=residual == "with")
        for seed in seeds:
            trained, held_out = training.train(settings, task, updates, seed), examples(task, seed)
            for name, model in (("trained", trained), ("untrained", fresh(settings, seed).eval())):
                loss, accuracy = training.nll(model, held_out), training.token_accuracy(model, held_out)
                for layer, value in enumerate(explained(model)):
                    about = {"model": f"{residual} residuals, {name}", "seed": seed, "layer": layer}
                    rows.append(about | {"R²": value, "nll": loss, "accuracy": accuracy})
    names = dict.fromkeys(row["model"] for row in rows)

    def of(name: str, layer: int = LAYERS, column: str = "R²") -> list[float]:
        return [row[column] for row in rows if (row["model"], row["layer"]) == (name, layer)]

    picture = curves(
        "How well the position can be read from a state",
        "layers of the encoder",
        "R² of a linear regression",
        {name: [(n, mean(of(name, n))) for n in range(LAYERS + 1)] for name in names},
        f"Mean of {len(seeds)} seeds; {updates} updates. Layer 0 is the sum of embeddings and positions.",
    )
    carried = min(of("with residuals, trained") + of("with residuals, untrained")) > 0.5
    one, two = (of(f"{which} residuals, trained", column="nll") for which in ("with", "without"))
    return Result(
        {"R² by layer": rows},
        picture,
        verdict_of(carried and max(of("without residuals, untrained")) < 0.5, decided=max(one) < CHANCE),
        f"R² of the position after layer {LAYERS}: "
        f"{'; '.join(f'{name}: {spread(of(name))}' for name in names)}. The loss after training is "
        f"{spread(one)} with residuals and {spread(two)} without, in nats a token; a model that knows "
        f"only the lengths has {CHANCE:.2f}. Without residuals the model learns "
        f"{'nothing' if min(two) > CHANCE else 'something'}; the verdict takes the untrained model.",
    )
