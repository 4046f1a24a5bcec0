"""Trains small Transformers to reverse texts of 4 to 8 letters, for a short time, so that they make errors,
from whole targets and from targets of which three in ten are cut short. Other texts are then reversed with
beams of growing width, without a length penalty. Accuracy is that of a token after the target's prefix.
"""

from itertools import pairwise
from statistics import mean

from dragoman.search.beam import beam_search
from dragoman.search.settings import SearchSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.comparisons import compared
from dragoman_paper.lab.parts.training import (
    REVERSING,
    TASKS,
    TINY,
    examples,
    short,
    spread,
    token_accuracy,
    train,
    wanted,
)

CLAIM = Claim(
    title="A wider beam of a trained model",
    section="6.1",
    claim="A wider beam finds more probable translations, and beyond some width worse ones.",
    claimed_by="Koehn and Knowles 2017, about neural machine translation",
)
BEAMS = (1, 2, 4, 8, 16)
SHORT = {"whole targets": "improbable", "cut targets": "probable"}  # short translations


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 220, seeds=5)
    rows = []
    for targets, task in TASKS.items():
        for seed in seeds:
            model, held_out = train(TINY, task, updates, seed), examples(REVERSING, seed, 1000)
            gold = wanted(held_out)
            about = {"trained on": targets, "seed": seed, "accuracy": token_accuracy(model, held_out)}
            for beam in BEAMS:
                settings = SearchSettings(beam_size=beam, length_penalty=0.0, max_extra_tokens=5)
                found = [best for best, *_ in beam_search(model, held_out.source, settings)]
                scores = {
                    "log P": mean(best.log_probability for best in found),
                    "exact": mean(float(best.ids == row) for best, row in zip(found, gold, strict=True)),
                    "length / reference": sum(len(best.ids) for best in found) / sum(map(len, gold)),
                }
                rows.append(about | {"beam": beam} | scores)

    def of(targets: str, beam: int, score: str) -> list[float]:
        return [row[score] for row in rows if (row["trained on"], row["beam"]) == (targets, beam)]

    picture = curves(
        "What wider beams find",
        "beam size",
        "share of the texts reversed without an error",
        {targets: [(n, mean(of(targets, n, "exact"))) for n in BEAMS] for targets in TASKS},
        f"Transformers after {updates} updates; mean of {len(seeds)} seeds.",
        log_x=True,
    )
    holds, shown = [], []
    for targets in TASKS:
        log_p, exact = ({n: of(targets, n, score) for n in BEAMS} for score in ("log P", "exact"))
        pairs = [pair for one, two in pairwise(log_p.values()) for pair in zip(one, two, strict=True)]
        likelier = all(wider >= narrower - 1e-3 for narrower, wider in pairs)
        best = max(BEAMS, key=lambda beam, exact=exact: mean(exact[beam]))
        lost = [a - b for a, b in zip(exact[best], exact[BEAMS[-1]], strict=True)]
        holds += [targets] * (likelier and min(lost) > 0)
        worse = "" if compared(exact[BEAMS[-1]], exact[BEAMS[0]]) == "lower" else "not "
        each = "; ".join(f"{n}: {spread(log_p[n])} nats, {spread(exact[n])} right" for n in BEAMS)
        length = mean(of(targets, BEAMS[-1], "length / reference"))
        shown.append(
            f"Trained on {targets}: {each}; the widest has {length:.2f} times the reference's length, and "
            f"{spread(lost, '.3f')} fewer right than beam {best}, the best. "
            f"Beam {BEAMS[-1]} is {worse}clearly worse than beam {BEAMS[0]}. "
        )
    condition = f"short translations are {SHORT[holds[0]]}" if len(holds) == 1 else ""
    learned = all(row["exact"] > 0.2 or row["accuracy"] > 0.5 for row in rows if row["beam"] == 1)
    return Result(
        {"Searches": rows},
        picture,
        verdict_of(bool(holds), condition, decided=learned),
        f"Log-probability, and share of texts without an error, by beam. {''.join(shown)}The claim needs, "
        "for every seed, that a wider beam has no lower probability than the next narrower, and "
        "that quality falls.",
    )
