"""Measures the norm of the gradient of each decoder layer of post-norm and pre-norm Transformers with 6
layers a side, at the first update, and after 20 updates with the paper's warm-up and with its highest rate
from the start.
"""

from dataclasses import replace
from statistics import mean

from dragoman.model.interface import Model
from dragoman.training.gradient_norms import gradient_norms_by_layer
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.training import (
    TINY,
    paper_rate,
    rate_without_warmup,
    reversing,
    short,
    spread,
    train,
)

CLAIM = Claim(
    title="Gradients by layer, post-norm and pre-norm",
    section="3.1",
    claim="Before training, the gradients of a post-norm Transformer are larger near its output than near "
    "its input, and those of a pre-norm one are not.",
    claimed_by="Xiong et al. 2020, as the reason why post-norm needs warm-up",
    topics=("T10",),
)
LAYERS = 6
DEEP = replace(TINY, encoder_layers=LAYERS, decoder_layers=LAYERS)
RATES = {"with warm-up": paper_rate, "without warm-up": rate_without_warmup}


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 20, seeds=8)
    norms: dict[tuple[str, int], list[list[float]]] = {}
    for norm in ("post", "pre"):
        for name, rate in RATES.items():
            for seed in seeds:

                def watch(step: int, model: Model, _: float, name: str = f"{norm}-norm, {name}") -> None:
                    if step in (1, updates):
                        found = gradient_norms_by_layer(model)
                        layers = [float(found[f"decoder.{layer}"]) for layer in range(LAYERS)]
                        norms.setdefault((name, step), []).append(layers)

                train(replace(DEEP, norm=norm), reversing(3, 5), updates, seed, rate, pairs=16, watch=watch)
    rows = [
        {"model": name, "update": step, "seed": seed, "layer": layer, "norm": value}
        for (name, step), runs in norms.items()
        for seed, layers in zip(seeds, runs, strict=True)
        for layer, value in enumerate(layers, 1)
    ]

    def ratio(name: str, step: int) -> list[float]:
        return [layers[-1] / layers[0] for layers in norms[name, step]]

    shown = {
        "post-norm, update 1": ("post-norm, without warm-up", 1),
        "pre-norm, update 1": ("pre-norm, without warm-up", 1),
    }
    shown |= {f"{name}, update {updates}": (name, updates) for name, step in norms if step == updates}
    picture = curves(
        "Gradient of the decoder's layers",
        "layer",
        "norm of the gradient",
        {
            title: [(n + 1, mean(layers[n] for layers in norms[key])) for n in range(LAYERS)]
            for title, key in shown.items()
        },
        f"Mean of {len(seeds)} seeds.",
        log_y=True,
    )
    post, pre = ratio("post-norm, without warm-up", 1), ratio("pre-norm, without warm-up", 1)
    later = "; ".join(f"{title}: {spread(ratio(*key), '.3g')}" for title, key in list(shown.items())[2:])
    return Result(
        {"Gradient norms": rows},
        picture,
        verdict_of(min(post) > max(1.0, *pre)),
        f"The last layer's gradient is {spread(post)} times the first's with post-norm, and {spread(pre)} "
        f"times with pre-norm. The same ratio later: {later}.",
    )
