"""Trains Transformers with 1, 2 and 4 layers of encoder to reverse texts, with residual connections and
without, and predicts the position of each token from the encoder's output by linear regression. R² is
measured on texts that the regression was not fitted to. The same is done with untrained models.
"""

from dataclasses import replace
from itertools import product
from statistics import mean

import torch

from dragoman.model.transformer import Transformer
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts import training
from dragoman_paper.lab.parts.training import TINY, chance, examples, fresh, reversing, short, spread

CLAIM = Claim(
    title="Positions in upper layers",
    section="3.5",
    claim="Positions are added only below the first layer, and residual connections carry them to the upper "
    "layers; without residual connections they are lost.",
    claimed_by="study notes and tutorials",
)
DEPTHS, LENGTH, CHANCE = (1, 2, 4), 8, chance(4, 8)


def explained(model: Transformer) -> float:
    """R² of the position from the state after the last layer of the encoder."""
    states: list[torch.Tensor] = []
    hook = model.encoder[-1].register_forward_hook(lambda *each: states.append(each[2]))
    with torch.no_grad():
        model.encode(examples(reversing(LENGTH, LENGTH), 1, 400).source)
    hook.remove()
    state = states[0][:, :LENGTH]  # without END
    position = (torch.arange(LENGTH, dtype=torch.float64) - (LENGTH - 1) / 2).repeat(200)[:, None]
    rows = torch.cat([state, torch.ones_like(state[:, :, :1])], 2).double()
    seen, unseen = rows[:200].flatten(0, 1), rows[200:].flatten(0, 1)
    guess = unseen @ torch.linalg.lstsq(seen, position, driver="gelsd").solution
    return 1 - float((guess - position).square().sum() / position.square().sum())


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    task, rows = reversing(4, LENGTH), []
    for depth, residual, seed in product(DEPTHS, ("with", "without"), seeds):
        settings = replace(TINY, encoder_layers=depth, decoder_layers=1, residual=residual == "with")
        trained, held_out = training.train(settings, task, updates, seed), examples(task, seed)
        for name, model in (("trained", trained), ("untrained", fresh(settings, seed).eval())):
            about = {"model": f"{residual} residuals, {name}", "layers": depth, "seed": seed}
            rows.append(about | {"R²": explained(model), "nll": training.nll(model, held_out)})
    names = dict.fromkeys(row["model"] for row in rows)

    def of(name: str, depth: int, column: str = "R²") -> list[float]:
        return [row[column] for row in rows if (row["model"], row["layers"]) == (name, depth)]

    picture = curves(
        "How well the position can be read from the encoder's output",
        "layers of the encoder",
        "R² of a linear regression",
        {name: [(depth, mean(of(name, depth))) for depth in DEPTHS] for name in names},
        f"Mean of {len(seeds)} seeds; {updates} updates.",
    )
    carried = all(min(of("with residuals, trained", depth)) > 0.5 for depth in DEPTHS)
    lost = [depth for depth in DEPTHS if max(of("without residuals, trained", depth)) < 0.5]
    condition = "" if len(lost) == len(DEPTHS) else f"the encoder has {' or '.join(map(str, lost))} layers"
    decided = all(max(of("with residuals, trained", depth, "nll")) < CHANCE for depth in DEPTHS)
    shown = "; ".join(f"{depth}, {name}: {spread(of(name, depth))}" for depth in DEPTHS for name in names)
    trained = [name for name in names if name.endswith(" trained")]
    losses = "; ".join(
        f"{depth}: {' and '.join(spread(of(name, depth, 'nll')) for name in trained)}" for depth in DEPTHS
    )
    return Result(
        {"R² by depth": rows},
        picture,
        verdict_of(carried and bool(lost), condition, decided),
        f"R² of the position, by layers of the encoder: {shown}. The loss after training with residuals and "
        f"without, in nats a token: {losses}; a model that knows only the lengths has {CHANCE:.2f}. “Lost” "
        "means an R² below 0.5 for each seed; the regression is linear.",
    )
