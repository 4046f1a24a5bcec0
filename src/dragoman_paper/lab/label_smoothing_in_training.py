"""Trains Transformers to reverse 400 texts, with one letter in ten of the target replaced at random, with and
without label smoothing. Each pair is seen many times, so models overfit. The perplexity and the BLEU (of
letters) are of other texts, without wrong letters. For each seed, initial weights and texts are the same.
"""

import itertools
from statistics import mean

import numpy as np

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts import training
from dragoman_paper.lab.parts.comparisons import higher_for_each_seed
from dragoman_paper.lab.parts.training import TINY, Pair, chance, pairs_of, reversing, short, spread, words

CLAIM = Claim(
    title="Label smoothing in training",
    section="5.4",
    claim="Label smoothing hurts perplexity, and improves accuracy and BLEU.",
    claimed_by="the paper, section 5.4",
)
NOISE, PAIRS = 0.1, 400
CLEAN, SMOOTHINGS = reversing(3, 6), (0.0, 0.1, 0.3)
SCORES = {"perplexity": "a higher perplexity", "exact": "more texts right", "BLEU": "a higher BLEU"}


def noisy(generator: np.random.Generator) -> Pair:
    """A pair with wrong letters in its target."""
    source, target = CLEAN(generator)
    wrong = generator.random(len(target)) < NOISE
    return source, np.where(wrong, words(generator, len(target)), target).tolist()


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 200, seeds=5)
    rows = []
    for smoothing, seed in itertools.product(SMOOTHINGS, seeds):
        generator = np.random.default_rng([seed, 2])
        task = pairs_of([noisy(generator) for _ in range(PAIRS)])
        model = training.train(TINY, task, updates, seed, smoothing=smoothing)
        clean = training.examples(CLEAN, seed)
        scores = {
            "perplexity": float(np.exp(training.nll(model, clean))),
            "exact": training.exact(model, clean),
            "BLEU": training.letter_bleu(model, clean),
        }
        rows.append({"ε_ls": smoothing, "seed": seed} | scores)

    def found(smoothing: float, score: str) -> list[float]:
        return [row[score] for row in rows if row["ε_ls"] == smoothing]

    titles = {"perplexity": "perplexity", "exact": "share of texts without an error", "BLEU": "BLEU"}
    picture = bars(
        "With and without label smoothing",
        "each quantity has its own scale, from 0",
        {t: {f"ε_ls = {e}": mean(found(e, score)) for e in SMOOTHINGS} for score, t in titles.items()},
        f"Other texts; mean of {len(seeds)} seeds after {updates} updates.",
        own_scales=True,
    )
    true: dict[float, list[str]] = {e: [] for e in SMOOTHINGS[1:]}
    for e, score in itertools.product(true, SCORES):
        true[e] += [SCORES[score]] * higher_for_each_seed(found(e, score), found(0.0, score))
    good = [f"ε_ls = {e}" for e, names in true.items() if len(names) == len(SCORES)]
    which = "; ".join(f"with {e}, {', '.join(names) or 'nothing'}" for e, names in true.items())
    shown = "; ".join(f"{e}: {', '.join(spread(found(e, score)) for score in SCORES)}" for e in SMOOTHINGS)
    against = all(any(mean(found(e, score)) <= mean(found(0.0, score)) for score in SCORES) for e in true)
    decided = max(found(0.0, "perplexity")) < np.exp(chance(3, 6)) and bool(good or against)
    verdict = verdict_of(bool(good), "" if len(good) == len(true) else " or ".join(good), decided)
    because = (
        f"Perplexity, share of texts right and BLEU, by ε_ls: {shown}. The claim needs all three higher "
        f"than with 0.0. What holds for every seed: {which}. The means {'' if against else 'do not '}"
        f"contradict it. Each of the {PAIRS} pairs is seen {updates * 32 / PAIRS:.0f} times: models overfit."
    )
    return Result({"Other texts": rows}, picture, verdict, because)
