"""Trains small Transformers to reverse texts of 4 to 8 letters, for a short time, so that they make errors,
and searches with beams of growing width, without a length penalty.
"""

from statistics import mean

import numpy as np

from dragoman.search.beam import beam_search
from dragoman.search.settings import SearchSettings
from lab.frame.experiment import Claim, Result, verdict_of
from lab.frame.pictures import curves
from lab.parts.training import TINY, examples, reversing, short, spread, train, wanted

CLAIM = Claim(
    title="A wider beam of a trained model",
    section="6.1",
    claim="A wider beam finds more probable translations, and beyond some width worse ones.",
    claimed_by="Koehn and Knowles 2017, about neural machine translation",
)
BEAMS, TASK = (1, 2, 4, 8, 16), reversing(4, 8)


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 220)
    rows = []
    for seed in seeds:
        model, held_out = train(TINY, TASK, updates, seed), examples(TASK, seed, 100)
        for beam in BEAMS:
            settings = SearchSettings(beam_size=beam, length_penalty=0.0, max_extra_tokens=5)
            found = [best for best, *_ in beam_search(model, held_out.source, settings)]
            right = [best.ids == row for best, row in zip(found, wanted(held_out), strict=True)]
            scores = {
                "log P": mean(best.log_probability for best in found),
                "exact": float(np.mean(right)),
                "length / reference": sum(len(best.ids) for best in found) / sum(map(len, wanted(held_out))),
            }
            rows.append({"seed": seed, "beam": beam} | scores)

    def found_by(beam: int, score: str) -> list[float]:
        return [row[score] for row in rows if row["beam"] == beam]

    picture = curves(
        "What wider beams find",
        "beam size",
        "share of the texts reversed without an error",
        {f"seed {seed}": [(r["beam"], r["exact"]) for r in rows if r["seed"] == seed] for seed in seeds},
        f"Transformers after {updates} updates.",
        log_x=True,
    )
    likelier = all(a >= b - 1e-3 for a, b in zip(found_by(16, "log P"), found_by(1, "log P"), strict=True))
    best = max(BEAMS, key=lambda beam: mean(found_by(beam, "exact")))
    lost = [a - b for a, b in zip(found_by(best, "exact"), found_by(BEAMS[-1], "exact"), strict=True)]
    shown = "; ".join(
        f"{beam}: {spread(found_by(beam, 'log P'))} nats, {spread(found_by(beam, 'exact'))} right"
        for beam in (1, 4, 16)
    )
    return Result(
        {"Searches": rows},
        picture,
        verdict_of(likelier and min(lost) > 0),
        f"Log-probability, and share of texts without an error, by beam: {shown}. Beam {best} has the "
        f"most texts right; the widest beam has {spread(lost)} less, and its translations have "
        f"{spread(found_by(16, 'length / reference'))} times the reference's length. The claim needs a loss "
        "of quality for every seed.",
    )
