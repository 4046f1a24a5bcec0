"""Stacks 12 encoder layers with random weights, with and without residual sums, feed-forward networks and
layer normalisation, and measures how different the states of a sentence's tokens are after each layer: the
part of the states that is not their mean over the tokens, as a share of the states (1 if the mean is 0, and 0
if all tokens have the same state, a matrix of rank 1). The second table has the root mean square of the
states, and the share of hidden units of the last layer that are 0 for all tokens.
"""

from dataclasses import replace
from statistics import mean

import torch
from torch import Tensor, nn

from dragoman.model.build import build_model
from dragoman.model.settings import ModelSettings
from dragoman.model.transformer import Transformer
from dragoman_paper.lab.frame.experiment import Claim, Result, Row, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import VOCABULARY, random_sentences

CLAIM = Claim(
    title="Rank collapse without residual connections",
    section="3.1",
    claim="Residual connections and layer normalisation each keep the states of the tokens of a deep encoder "
    "from becoming equal.",
    claimed_by="study notes",
)
DEPTH, TOKENS, EQUAL = 12, 24, 0.01
BASE = ModelSettings(d_model=64, d_ff=256, heads=4, encoder_layers=DEPTH, decoder_layers=1, dropout=0.0)
ALONE = "attention alone"
STACKS = {
    ALONE: replace(BASE, residual=False, norm="none"),
    "attention, layer norm": replace(BASE, residual=False),
    "attention, residuals": replace(BASE, norm="none"),
    "attention, feed-forward": replace(BASE, residual=False, norm="none"),
    "the paper's layer": BASE,
}


def states(settings: ModelSettings, has_feed_forward: bool, seed: int) -> tuple[list[Tensor], float]:
    """The states [N D] before the first layer and after each, and the share of dead units of the last."""
    torch.manual_seed(seed)
    model = build_model(settings, VOCABULARY, VOCABULARY).double().eval()
    assert isinstance(model, Transformer)
    found: list[Tensor] = []
    hidden: list[Tensor] = []
    for layer in model.encoder:
        if not has_feed_forward:
            layer.feed_forward = Nothing() if settings.residual else nn.Identity()
        layer.register_forward_pre_hook(lambda _, given: found.append(given[0][0]))
        layer.register_forward_hook(lambda _, __, output: found.append(output[0]))
    if has_feed_forward:
        inner = model.encoder[-1].get_submodule("feed_forward.inner")
        inner.register_forward_hook(lambda _, __, output: hidden.append(output[0].relu()))
    with torch.no_grad():
        model.encode(random_sentences([TOKENS], seed))
    dead = float((hidden[0] == 0).all(0).double().mean()) if hidden else 0.0
    return [found[0], *found[1::2]], dead


class Nothing(nn.Module):
    """A sub-layer that adds nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """Zeros."""
        return torch.zeros_like(x)


def apart(x: Tensor) -> float:
    """The part of states [N D] that is not their mean over the tokens, as a share."""
    return float((x - x.mean(0)).norm() / x.norm())


def run(quick: bool) -> Result:
    seeds = range(1, 4 if quick else 9)
    rows: list[Row] = []
    sizes: list[Row] = []
    shares: dict[str, list[list[float]]] = {}
    for name, settings in STACKS.items():
        found = [
            states(settings, name in ("attention, feed-forward", "the paper's layer"), seed) for seed in seeds
        ]
        shares[name] = [[apart(x) for x in each] for each, _ in found]
        for depth in (0, 1, 2, 4, 8, 12):
            at = [each[depth] for each in shares[name]]
            rows.append({"stack": name, "layers": depth, "least": min(at), "mean": mean(at), "most": max(at)})
        last = [each[-1].square().mean().sqrt() for each, _ in found]
        dead = [share for _, share in found]
        sizes.append(
            {
                "stack": name,
                f"root mean square after {DEPTH} layers": float(mean(map(float, last))),
                "hidden units that are 0 for all tokens, %": 100 * mean(dead),
            }
        )

    def least(name: str) -> float:
        return min(each[-1] for each in shares[name])

    def most(name: str) -> float:
        return max(each[-1] for each in shares[name])

    collapses = most(ALONE) < EQUAL
    residuals, norm = least("attention, residuals") > EQUAL, least("attention, layer norm") > EQUAL
    picture = curves(
        "How different the states of tokens are",
        "layers",
        "share that is not the mean",
        {name: list(enumerate(map(mean, zip(*each, strict=True)))) for name, each in shares.items()},
        "Means of the seeds.",
    )
    shown = "; ".join(f"{name}: {least(name):.2g} to {most(name):.2g}" for name in STACKS)
    return Result(
        {f"{TOKENS} tokens, {len(seeds)} seeds": rows, "Size of states, and dead units": sizes},
        picture,
        verdict_of(residuals and collapses, "" if norm else "there are residual connections", collapses),
        f"The share of the states that is not their mean, after {DEPTH} layers, least and most of "
        f"{len(seeds)} seeds: {shown}. Below {EQUAL} states count as equal. With residual connections it "
        "falls too, but slowly. The weights are random; training changes them.",
    )
