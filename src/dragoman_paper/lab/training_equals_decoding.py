"""Gives all target tokens to the decoder at once, as training does, and one by one with a cache of keys and
values, as a search does, and compares the logits. The same is done without the causal mask.
"""

import torch
from torch import Tensor

from dragoman.model.transformer import Transformer
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import SeesAll, random_sentences, random_transformer

CLAIM = Claim(
    title="Training computes what decoding computes",
    section="3.2.3",
    claim="With the causal mask, the prediction for each token is the same whether all tokens are given at "
    "once or only those before it.",
    claimed_by="the paper, sections 3.1 and 3.2.3; study notes",
)
TOKENS = 12


def at_once(model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """The logits [B, T, V] of all tokens, given at once."""
    return model.logits(model.decode(target, model.encode(source))[0])


def step_by_step(model: Transformer, source: Tensor, target: Tensor) -> tuple[Tensor, bool]:
    """The same, given one by one, and whether the source's keys and values stayed as they were."""
    first = state = model.encode(source).allocate(1, TOKENS)
    steps = []
    for step in range(TOKENS):
        features, state = model.decode(target[:, step : step + 1], state)
        steps.append(model.logits(features)[:, 0])
    same = all(one is other for one, other in zip(first.memory, state.memory, strict=True))
    return torch.stack(steps, 1), same


def run(quick: bool) -> Result:
    model, encoded = random_transformer(), []
    source, target = random_sentences([8, 5, 3]), random_sentences([TOKENS] * 3, seed=2)
    with torch.no_grad():
        whole = at_once(model, source, target)
        model.encoder[0].register_forward_hook(lambda *_: encoded.append(1))
        steps, once = step_by_step(model, source, target)
        once = once and len(encoded) == 1
        for layer in model.decoder:
            layer.self_attention.__class__ = SeesAll
        unmasked = at_once(model, source, target)
    errors = {"with the mask": whole - steps, "without it": unmasked - steps}
    rows = [
        {"token": step + 1} | {name: float(each[:, step].abs().max()) for name, each in errors.items()}
        for step in range(TOKENS)
    ]
    worst, lost = (max(row[name] for row in rows) for name in errors)
    picture = curves(
        "All tokens at once against one by one",
        "token",
        "largest difference of a logit",
        {name: [(row["token"], row[name]) for row in rows] for name in errors},
        log_y=True,
    )
    return Result(
        {"3 sentences, float64": rows},
        picture,
        verdict_of(worst < 1e-9 and once),
        f"The logits agree to {worst:.0e}; without the mask they differ by up to {lost:.0f}. Decoding "
        f"{TOKENS} tokens step by step encodes the source once, and computes its keys and values once for "
        "each layer.",
    )
