"""Trains Transformers to reverse texts, with positions that are concatenated to embeddings and mapped to
d_model by a matrix, and with positions that are added: with a matrix that maps the sum, and without one, as
in the paper. At the start the matrices give the first layer inputs of the same size (root mean square).
"""

from dataclasses import replace
from statistics import mean
from unittest.mock import patch

from torch import Tensor, nn

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.transformer import Transformer
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts import training
from dragoman_paper.lab.parts.comparisons import compared
from dragoman_paper.lab.parts.training import (
    TINY,
    chance,
    examples,
    mean_curve,
    recorder,
    reversing,
    short,
    spread,
)

CLAIM = Claim(
    title="Added and concatenated positions in training",
    section="3.5",
    claim="A model with concatenated positions learns no faster than one with added positions.",
    claimed_by="answers to a common question (why positions are added, and not concatenated)",
)
TASK, SAME_SIZE = reversing(4, 8), 0.0725


class Mapped(Transformer):
    """Positions are added to embeddings, and a matrix maps the sums."""

    def __init__(self, settings: ModelSettings, *vocabularies: int) -> None:
        super().__init__(settings, *vocabularies)
        self.combine = nn.Linear(settings.d_model, settings.d_model, bias=False)
        nn.init.normal_(self.combine.weight, std=SAME_SIZE)

    def embed(self, ids: Tensor, embedding: nn.Embedding, positions: Tensor) -> Tensor:
        return self.combine(super().embed(ids, embedding, positions))


KINDS = {
    "concatenated": (build_model, replace(TINY, concatenate_positions=True)),
    "added, then a map": (Mapped, TINY),
    "added": (build_model, TINY),
}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 160, seeds=8)
    losses: dict[str, list[list[float]]] = {name: [[] for _ in seeds] for name in KINDS}
    rows, tail = [], max(updates // 10, 1)
    for name, (build, settings) in KINDS.items():
        for seed, found in zip(seeds, losses[name], strict=True):
            with patch.object(training, "build_model", build):
                model = training.train(settings, TASK, updates, seed, pairs=24, watch=recorder(found))
            row = {"positions": name, "seed": seed, "nll": mean(found[-tail:])}
            row["accuracy"] = training.token_accuracy(model, examples(TASK, seed))
            rows.append(row | {"weights": sum(weight.numel() for weight in model.parameters())})
    last = {name: [mean(found[-tail:]) for found in runs] for name, runs in losses.items()}
    picture = curves(
        "Learning curves",
        "updates",
        "negative log-likelihood per token, nats",
        {name: mean_curve(runs, tail) for name, runs in losses.items()},
        f"Mean of {len(seeds)} seeds and of {tail} updates.",
    )
    right = {name: [row["accuracy"] for row in rows if row["positions"] == name] for name in KINDS}
    shown = "; ".join(f"{name} {spread(last[name])} nats, {spread(right[name])}" for name in KINDS)
    mapped, plain = (compared(last[name], last["concatenated"]) for name in ("added, then a map", "added"))
    decided = max(last["added, then a map"]) < chance(4, 8) and mapped != "not clearly different"
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(mapped == "lower", "a matrix maps the sum too" if plain == "higher" else "", decided),
        f"The loss of the last {tail} of {updates} updates, and the share of tokens right in other texts: "
        f"{shown}. Compared with concatenation, the loss of a sum with a map is {mapped}; that of a sum "
        f"without one, as in the paper, is {plain}. The test is about speed, with one learning rate and "
        f"d_model = {TINY.d_model}; longer trainings are not compared. Sums without a map also begin with "
        "larger inputs.",
    )
