"""Gives the same weights to a model with post-norm, LayerNorm(x + Sublayer(x)), and one with pre-norm, x +
Sublayer(LayerNorm(x)), and measures the root mean square of the residual stream after each layer. The
normalisations at the end of the pre-norm encoder and decoder, which post-norm does not have, have gains of 1
and biases of 0.
"""

from dataclasses import replace

import torch

from dragoman.model.transformer import Transformer
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import SMALL, largest_difference, random_sentences, random_transformer

CLAIM = Claim(
    title="Post-norm and pre-norm are two models",
    section="3.1",
    claim="Whether the normalisation is before or after the sub-layer is a matter of notation; the weights "
    "of one model can be used in the other.",
    claimed_by="folklore (questions to the authors of toolkits)",
    topics=("T3", "T10", "T11"),
)
DEPTH, SEEDS = 12, (1, 2, 3)


def sizes(model: Transformer, source: torch.Tensor) -> list[float]:
    """The root mean square of the encoder's stream after each layer."""
    found: list[float] = []
    hooks = [
        layer.register_forward_hook(lambda *each: found.append(float(each[2].square().mean().sqrt())))
        for layer in model.encoder
    ]
    with torch.no_grad():
        model.encode(source)
    for hook in hooks:
        hook.remove()
    return found


def run(quick: bool) -> Result:
    rows, apart = [], []
    source, target = random_sentences([12, 9]), random_sentences([8, 8], seed=2)
    for seed in SEEDS:
        settings = replace(SMALL, encoder_layers=DEPTH)
        post = random_transformer(settings, seed)
        pre = random_transformer(replace(settings, norm="pre"), seed)
        with torch.no_grad():
            for name, weight in post.named_parameters():
                pre.get_parameter(name).copy_(weight)
            for norm in (pre.encoder_norm, pre.decoder_norm):
                norm.reset_parameters()
            one, two = (m.logits(m.decode(target, m.encode(source))[0]).log_softmax(-1) for m in (post, pre))
        apart.append(largest_difference(one, two))
        for depth, (a, b) in enumerate(zip(sizes(post, source), sizes(pre, source), strict=True), 1):
            rows.append({"seed": seed, "layer": depth, "post-norm": a, "pre-norm": b})
    last = [row for row in rows if row["layer"] == DEPTH]
    post_sizes = [row["post-norm"] for row in rows]
    growth = sum(row["pre-norm"] for row in last) / sum(row["pre-norm"] for row in rows if row["layer"] == 1)
    picture = curves(
        "Size of the encoder's residual stream",
        "layer",
        "root mean square",
        {
            f"{kind}, seed {seed}": [(row["layer"], row[kind]) for row in rows if row["seed"] == seed]
            for kind in ("post-norm", "pre-norm")
            for seed in SEEDS
        },
    )
    return Result(
        {"Root mean square of the residual stream": rows},
        picture,
        verdict_of(max(apart) < 1e-9),
        f"The same weights give log-probabilities that differ by up to {max(apart):.0f} nats. With "
        f"post-norm, as in the paper, the size of the residual stream is {min(post_sizes):.2f} to "
        f"{max(post_sizes):.2f} after every layer; with pre-norm it grows {growth:.1f} times from layer 1 to "
        f"layer {DEPTH}, so pre-norm needs one more normalisation, at the end.",
    )
