"""Trains Transformers to translate 20 words into 10, so that every translation belongs to two words of the
source. After training, the nearest neighbour of each word is looked up in the source embedding.
"""

from dataclasses import replace
from statistics import mean

import numpy as np

from dragoman.inspection.record.neighbours import nearest
from dragoman.model.interface import Model
from dragoman.model.transformer import Transformer
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.training import TINY, VOCABULARY, Pair, chance, short, spread, train, words

CLAIM = Claim(
    title="Neighbours of trained embeddings",
    section="3.4",
    claim="Words that are used in the same way get embeddings that are near each other.",
    claimed_by="study notes and tutorials",
)
WORDS = range(4, 24)


def translation(generator: np.random.Generator) -> Pair:
    """3 to 6 words; word 2n and word 2n + 1 are both translated by word 2n."""
    text = words(generator, int(generator.integers(3, 7)))
    return text, [word - word % 2 for word in text]


def paired(model: Model) -> float:
    """The share of words whose nearest neighbour is the other word with the same translation."""
    assert isinstance(model, Transformer)
    found = nearest(model.source_embedding.weight, list(WORDS), 1)
    return mean(float(best == word ^ 1) for word, ((best, _),) in zip(WORDS, found, strict=True))


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    settings, every = replace(TINY, tied="none"), max(updates // 8, 1)
    rows: list[dict[str, float]] = []
    for seed in seeds:

        def watch(step: int, model: Model, nll: float, seed: int = seed) -> None:
            if step == 1 or step % every == 0:
                found = {"share": paired(model), "nll": nll}
                rows.append({"seed": seed, "update": step} | found)

        train(settings, translation, updates, seed, watch=watch)
    first, last = ([row["share"] for row in rows if row["update"] == n] for n in (1, rows[-1]["update"]))
    losses = [row["nll"] for row in rows if row["update"] == rows[-1]["update"]]
    picture = curves(
        "Words whose nearest neighbour has the same translation",
        "updates",
        "share of the words",
        {f"seed {s}": [(row["update"], row["share"]) for row in rows if row["seed"] == s] for s in seeds},
        f"{len(WORDS)} words; chance is 1 in {VOCABULARY - 1}: the symbols are rows of the matrix too.",
    )
    return Result(
        {"By update": rows},
        picture,
        verdict_of(min(last) > max(0.5, *first), decided=max(losses) < chance(3, 6, len(WORDS) // 2)),
        f"The nearest neighbour has the same translation for {spread(first)} of the words before training "
        f"and for {spread(last)} before update {rows[-1]['update']}. The common translation is all that the "
        "two words share.",
    )
