"""Trains Transformers of two layers with 4 heads in each of 6 attentions to reverse texts. Removes each head
alone, then one head after another, beginning with the one whose removal alone costs least. Nothing is trained
after a removal. This order is chosen on the texts that also measure the accuracy.
"""

from collections.abc import Sequence
from statistics import mean

from dragoman.inspection.analyse.ablation import heads_of
from dragoman.inspection.analyse.changes import HeadOff
from dragoman.inspection.analyse.interventions import with_interventions
from dragoman.model.transformer import Transformer
from dragoman.text.batches import Batch
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.training import TINY, examples, reversing, short, spread, token_accuracy, train

CLAIM = Claim(
    title="How many heads matter",
    section="3.2.2",
    claim="Most heads can be removed one at a time, and a fifth of them together, without training and with "
    "little loss.",
    claimed_by="Michel et al. 2019, about a large Transformer for translation and BERT",
)
TASK, LOSS, MOST, FIFTH = reversing(3, 6), 0.02, 0.5, 0.2


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 250)
    alone, together = [], []
    for seed in seeds:
        model, held_out = train(TINY, TASK, updates, seed), examples(TASK, seed, 100)
        assert isinstance(model, Transformer)

        def accuracy(off: Sequence[HeadOff], model: Transformer = model, batch: Batch = held_out) -> float:
            return token_accuracy(with_interventions(model, off), batch)

        whole = accuracy([])
        found = {head: accuracy([head]) for head in heads_of(model)}
        alone += [
            {"seed": seed, "without": str(head), "accuracy": value, "change": value - whole}
            for head, value in found.items()
        ]
        order = sorted(found, key=lambda head: -found[head])
        together += [
            {"seed": seed, "heads removed": count, "accuracy": accuracy(order[:count])}
            for count in range(len(order) + 1)
        ]
    heads = len(alone) // len(seeds)
    single = [mean(float(r["change"] > -LOSS) for r in alone if r["seed"] == s) for s in seeds]
    many = []
    for seed in seeds:
        rows = [row for row in together if row["seed"] == seed]
        kept = [row["heads removed"] for row in rows if row["accuracy"] > rows[0]["accuracy"] - LOSS]
        many.append(max(kept) / heads)
    picture = curves(
        "Heads removed, the least important first",
        "heads removed",
        "accuracy of a token",
        {
            f"seed {seed}": [(r["heads removed"], r["accuracy"]) for r in together if r["seed"] == seed]
            for seed in seeds
        },
        f"Of {heads} heads; {updates} updates; nothing is trained after the removal.",
    )
    parts = {"one head is removed": min(single) > MOST, "a fifth is removed together": min(many) >= FIFTH}
    true = [part for part, holds in parts.items() if holds]
    decided = all(row["accuracy"] > 0.5 for row in together if row["heads removed"] == 0)
    return Result(
        {"Each head alone": alone, "Together": together},
        picture,
        verdict_of(bool(true), "" if len(true) == len(parts) else "".join(true), decided),
        f"Of {heads} heads, a share of {spread(single)} can be removed alone with a loss of accuracy below "
        f"{LOSS}, and a share of {spread(many)} together. The claim needs more than {MOST} and at "
        f"least {FIFTH}, for every seed. These models have {heads} heads of width {TINY.key_width} and were "
        "trained without dropout, so they may have less to spare; this does not contradict Michel et al. "
        "Voita et al. 2019 remove encoder heads in a further training, which is not tested.",
    )
