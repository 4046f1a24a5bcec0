"""Trains Transformers to reverse texts of 4 to 6 letters. For each target token of texts of 6 letters, the
weights of encoder-decoder attention are compared with the loss of the token's log-probability when a source
letter is replaced by another. The weights are means over the heads, of each layer and of both; END can have
the largest one. The correlation and the picture are without END, which is not replaced.
"""

import numpy as np

from dragoman.model.interface import Model
from dragoman.search.attention_weights import cross_attention
from dragoman.text.batches import Batch
from dragoman_paper.lab.frame.cells import Side, matrices
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.parts.training import (
    TINY,
    chance,
    examples,
    nll,
    reversing,
    short,
    spread,
    token_log_probs,
    train,
)

CLAIM = Claim(
    title="Attention weights as explanations",
    section="4",
    claim="The source token with the largest weight of encoder-decoder attention is the one that a "
    "prediction depends on most.",
    claimed_by="folklore (attention weights as explanations); the paper, section 4, says that "
    "self-attention “could yield more interpretable models”",
)
LENGTH, LEAST = 6, 0.8


def losses(model: Model, batch: Batch) -> np.ndarray:
    """What log P of each letter loses without each source letter [B T S], mean of 4 replacements."""
    gold = batch.target_out[:, :, None]
    whole = token_log_probs(model, batch).gather(2, gold)[:, :LENGTH, 0]
    found = np.zeros((len(gold), LENGTH, LENGTH))
    for place in range(LENGTH):
        for shift in (3, 7, 11, 17):
            source = batch.source.clone()
            source[:, place] = 4 + (source[:, place] - 4 + shift) % 20
            now = token_log_probs(model, Batch.of(source, batch.target_out, batch.pairs))
            found[:, :, place] += (whole - now.gather(2, gold)[:, :LENGTH, 0]).numpy() / 4
    return found


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200, seeds=8)
    rows, shown, losses_in_use = [], {}, []
    for seed in seeds:
        model = train(TINY, reversing(4, LENGTH), updates, seed)
        batch = examples(reversing(LENGTH, LENGTH), seed, 100)
        losses_in_use.append(nll(model, batch))
        lost = losses(model, batch)
        layers = cross_attention(model, batch.source, batch.target_out).mean(2)[..., :LENGTH, :].numpy()
        views = {f"layer {n}": layer for n, layer in enumerate(layers, 1)} | {"all layers": layers.mean(0)}
        for name, weights in views.items():
            agree = float((weights.argmax(2) == lost.argmax(2)).mean())
            correlation = float(np.corrcoef(weights[..., :LENGTH].ravel(), lost.ravel())[0, 1])
            rows.append({"seed": seed, "attention": name, "same token": agree, "correlation": correlation})
        if seed == seeds[0]:
            effect = lost.mean(0).clip(0)
            shown = {f"weights, {name}": weights[..., :LENGTH].mean(0) for name, weights in views.items()}
            shown["loss of log P, share of its row"] = effect / effect.sum(1, keepdims=True)

    def of(name: str, column: str) -> list[float]:
        return [row[column] for row in rows if row["attention"] == name]

    names = dict.fromkeys(row["attention"] for row in rows)
    title = "Attention, and loss of log P without a source letter"
    unit, note = "attention weight; share of the loss of log P", f"Mean of 100 texts, seed {seeds[0]}."
    picture = matrices(title, unit, shown, Side("target letter"), Side("source letter"), note)
    figures = "; ".join(f"{name}: {spread(of(name, 'same token'))}" for name in names)
    good = [name for name in names if min(of(name, "same token")) > LEAST]
    condition = f"the weights are those of {' or '.join(good)}" * (len(good) < len(names))
    against = all(sum(of(name, "same token")) <= LEAST * len(seeds) for name in names)
    decided = max(losses_in_use) < chance(LENGTH, LENGTH)
    return Result(
        {"Agreement": rows},
        picture,
        verdict_of(bool(good), condition, decided and bool(good or against)),
        f"The share of letters whose most attended source token is the one that matters most: {figures}; "
        f"the claim needs more than {LEAST} for every seed. Correlation of weights and losses, all layers: "
        f"{spread(of('all layers', 'correlation'))}. Few tasks are so simple: a letter depends on one other.",
    )
