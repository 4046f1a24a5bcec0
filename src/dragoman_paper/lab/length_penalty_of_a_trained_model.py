"""Trains small Transformers to reverse texts of 4 to 10 letters, for a short time, so that they make errors,
and searches with a beam of 4 and length penalties ((5 + |Y|) / 6)^α of growing α.
"""

from itertools import pairwise
from statistics import mean

from dragoman.search.beam import beam_search
from dragoman.search.settings import SearchSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.comparisons import higher_for_each_seed
from dragoman_paper.lab.parts.training import TINY, examples, reversing, short, spread, train, wanted

CLAIM = Claim(
    title="The length penalty α of a trained model",
    section="6.1",
    claim="A larger α gives longer translations, and α = 0.6 gives better ones than α = 0.",
    claimed_by="texts about length penalties; the paper, section 6.1, uses that of Wu et al. with 0.6, "
    "chosen on the development set",
)
ALPHAS, TASK, TEXTS = (0.0, 0.6, 1.0, 4.0), reversing(4, 10), 1000


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 220, seeds=5)
    rows = []
    for seed in seeds:
        model, held_out = train(TINY, TASK, updates, seed), examples(TASK, seed, TEXTS)
        for alpha in ALPHAS:
            settings = SearchSettings(beam_size=4, length_penalty=alpha, max_extra_tokens=8)
            found = [best.ids for best, *_ in beam_search(model, held_out.source, settings)]
            exact = mean(float(ids == row) for ids, row in zip(found, wanted(held_out), strict=True))
            length = sum(map(len, found)) / sum(map(len, wanted(held_out)))
            rows.append({"seed": seed, "α": alpha, "length / reference": length, "exact": exact})

    def of(alpha: float, score: str) -> list[float]:
        return [row[score] for row in rows if row["α"] == alpha]

    picture = curves(
        "Length by α",
        "α",
        "length / length of the reference",
        {f"seed {s}": [(r["α"], r["length / reference"]) for r in rows if r["seed"] == s] for s in seeds},
        f"Beam 4, Transformers after {updates} updates.",
    )
    by_seed = list(zip(*(of(alpha, "length / reference") for alpha in ALPHAS), strict=True))
    longer = all(
        lengths[0] < lengths[-1] and all(one <= other + 1e-9 for one, other in pairwise(lengths))
        for lengths in by_seed
    )
    shown = "; ".join(
        f"α = {a:g}: length {spread(of(a, 'length / reference'))}, right {spread(of(a, 'exact'))}"
        for a in (0.0, 0.6, 4.0)
    )
    better = higher_for_each_seed(of(0.6, "exact"), of(0.0, "exact"))
    gains = [TEXTS * (a - b) for a, b in zip(of(0.6, "exact"), of(0.0, "exact"), strict=True)]
    quality = "true" if better else "not decided" if mean(gains) > 0 else "not true"
    return Result(
        {"Beam 4": rows},
        picture,
        verdict_of(
            longer,
            "" if better else f"for the length: 'better' is {quality}",
            decided=min(of(0.0, "exact")) > 0.2,
        ),
        f"Translations {'get' if longer else 'do not get'} longer with each larger α. That 0.6 is better "
        f"than 0 is {quality}: the number of right texts, of {TEXTS}, changes by {spread(gains, '+.0f')}. "
        f"Length relative to the reference, and share of texts without an error: {shown}. The claim needs "
        "both for every seed.",
    )
