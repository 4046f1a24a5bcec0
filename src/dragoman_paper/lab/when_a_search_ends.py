"""Trains small Transformers to reverse texts of 4 to 8 letters, from whole targets and from targets of which
three in ten are cut short. Other texts are then reversed by beam searches (beam size W = 4, α = 0.6) that end
by four rules: that of fairseq and CTranslate2, Dragoman's, Hugging Face's and Tensor2Tensor's. “None” means
no unfinished hypothesis, and “now” means scored at its present length. In Tensor2Tensor any of 2 W candidates
of a step can finish; here, as in the others, the W likeliest.
"""

from statistics import mean

import numpy as np

from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import bars
from dragoman_paper.lab.parts.stop_rules import RULES, searches
from dragoman_paper.lab.parts.training import REVERSING, TASKS, TINY, examples, short, spread, train, wanted

CLAIM = Claim(
    title="When a beam search ends",
    section="6.1",
    claim="The rule by which a beam search ends makes no difference to its translations.",
    claimed_by="folklore (papers give the beam size and the length penalty, but not the rule)",
)
FIRST = next(iter(RULES))


def run(quick: bool) -> Result:
    seeds, updates = short(quick, 220)
    rows = []
    for targets, task in TASKS.items():
        for seed in seeds:
            held_out = examples(REVERSING, seed, 100)
            found = searches(train(TINY, task, updates, seed), held_out.source)
            for rule in RULES:
                right = [one[rule][0] == row for one, row in zip(found, wanted(held_out), strict=True)]
                scores = {
                    "exact": float(np.mean(right)),
                    "other translations than by the first rule": mean(
                        one[rule][0] != one[FIRST][0] for one in found
                    ),
                    "steps": mean(one[rule][1] for one in found),
                }
                rows.append({"trained on": targets, "seed": seed, "rule": rule} | scores)

    def of(targets: str, rule: str, score: str) -> list[float]:
        return [row[score] for row in rows if (row["trained on"], row["rule"]) == (targets, rule)]

    picture = bars(
        "Texts reversed without an error, by the rule that ends a search",
        "share of the texts, mean of the seeds",
        {f"{targets}:": {rule: mean(of(targets, rule, "exact")) for rule in RULES} for targets in TASKS},
        f"W = 4, α = 0.6, Transformers after {updates} updates.",
    )
    other = {
        targets: [max(of(targets, rule, "other translations than by the first rule")) for rule in RULES][1:]
        for targets in TASKS
    }
    steps = {rule: mean(of("cut targets", rule, "steps")) for rule in RULES}
    shown = "; ".join(
        f"{rule}: {spread(of('cut targets', rule, 'exact'))}, {steps[rule]:.2f} steps" for rule in RULES
    )
    condition = "short translations are improbable" if any(other["cut targets"]) else ""
    return Result(
        {"Four rules": rows},
        picture,
        verdict_of(
            not any(other["whole targets"]), condition, decided=min(of("whole targets", FIRST, "exact")) > 0.2
        ),
        f"Share of texts without an error, trained on cut targets, by rules of programs named below: "
        f"{shown}. By the first rule, W short "
        "hypotheses can end a search while a far more probable one is unfinished. Trained on whole targets, "
        f"the share by the first rule is {spread(of('whole targets', FIRST, 'exact'))}, and the other "
        f"rules change at most {100 * max(other['whole targets']):.0f}% of the translations.",
    )
