"""Trains Transformers to reverse texts, with one letter in ten of the target replaced at random so that
no model can be certain, from a corpus of 400 pairs, with and without label smoothing. Other noisy texts
have a perplexity; greedy search reverses clean ones. BLEU takes letters as words.
"""

from statistics import mean

import numpy as np

from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import bars
from lab.parts import training
from lab.parts.training import TINY, Pair, chance, pairs_of, reversing, short, spread, words

CLAIM = Claim(
    title="Label smoothing in training",
    section="5.4",
    claim="Label smoothing hurts perplexity, and improves accuracy and BLEU.",
    claimed_by="the paper, section 5.4",
)
NOISE, PAIRS = 0.1, 400
CLEAN = reversing(3, 6)
SMOOTHINGS = (0.0, 0.1, 0.3)


def noisy(generator: np.random.Generator) -> Pair:
    """A pair with wrong letters in its target."""
    source, target = CLEAN(generator)
    wrong = generator.random(len(target)) < NOISE
    return source, np.where(wrong, words(generator, len(target)), target).tolist()


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200)
    rows = []
    for smoothing in SMOOTHINGS:
        for seed in seeds:
            generator = np.random.default_rng([seed, 2])
            task = pairs_of([noisy(generator) for _ in range(PAIRS)])
            model = training.train(TINY, task, updates, seed, smoothing=smoothing)
            clean = training.examples(CLEAN, seed)
            scores = {
                "perplexity": float(np.exp(training.nll(model, training.examples(noisy, seed)))),
                "exact": training.exact(model, clean),
                "BLEU": training.letter_bleu(model, clean),
            }
            rows.append({"ε_ls": smoothing, "seed": seed} | scores)

    def found(smoothing: float, score: str) -> list[float]:
        return [row[score] for row in rows if row["ε_ls"] == smoothing]

    def means(score: str, factor: float) -> dict[str, float]:
        return {f"ε_ls = {e}": factor * mean(found(e, score)) for e in SMOOTHINGS}

    picture = bars(
        "With and without label smoothing",
        "perplexity; texts without an error, of 10; BLEU / 10",
        {
            "perplexity of noisy texts": means("perplexity", 1),
            "clean texts without an error, of 10": means("exact", 10),
            "BLEU of clean texts, divided by 10": means("BLEU", 0.1),
        },
        f"Other texts; mean of {len(seeds)} seeds after {updates} updates.",
    )
    worse = min(found(0.1, "perplexity")) > max(found(0.0, "perplexity"))
    better = all(min(found(0.1, score)) > max(found(0.0, score)) for score in ("exact", "BLEU"))
    shown = "; ".join(
        f"{e}: perplexity {spread(found(e, 'perplexity'))}, texts right {spread(found(e, 'exact'))}, BLEU "
        f"{spread(found(e, 'BLEU'), '.1f')}"
        for e in SMOOTHINGS
    )
    return Result(
        {"Other texts": rows},
        picture,
        verdict_of(worse and better, decided=max(found(0.0, "perplexity")) < np.exp(chance(3, 6))),
        f"Mean and range of the seeds, by ε_ls: {shown}. The claim needs a higher perplexity, more texts "
        "right and a higher BLEU with 0.1 than with 0.0, with separate ranges of the seeds.",
    )
